# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Formatters and linters of every language: one list, used by `rem test` and `rem fmt`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.docs.check import TO_MEASURE, check
from lab.progress import step
from lab.run import Children, Done, owned_by, run
from lab.setup.cargo import cargo_env
from lab.setup.checkpatch import Checkpatch
from lab.setup.products import need
from lab.tidy.check import tidy
from lab.tidy.files import is_shell, project_files

C_FOLDERS = (
    "format",
    "loader",
    "guest",
    "heap",
    "keep",
    "off2f",
    "pm",
    "tests",
)  # except those of checkpatch
KERNEL_FOLDERS = (
    "kernel",
    "pm/kernel",
    "pm/init",
    "off2f/kernel",
    "keep/kernel",
)
# For mails to Linux's maintainers, not for a project with its own licence table.
CHECKPATCH_IGNORES = (
    "FILE_PATH_CHANGES",
    "SPDX_LICENSE_TAG",
    "COMMIT_MESSAGE",
    "MISSING_SIGN_OFF",
    "EMAIL_SUBJECT",
    "COMMIT_LOG_LONG_LINE",
    "UNDOCUMENTED_SETUP",
)

Report = Callable[[str], None]


@dataclass(frozen=True)
class Linter:
    """A command that prints nothing and ends with 0 if there is no finding."""

    name: str
    argv: Sequence[str | Path]


def linters(repo: Path) -> list[Linter]:
    """The linters that apply to this checkout."""
    files = project_files(repo)
    python = [sys.executable, "-m"]
    found = []
    if (repo / "Cargo.toml").exists():  # first: it takes longest
        clippy = ["cargo", "clippy", "-q", "--workspace", "--all-targets", "--locked"]
        found.append(Linter("clippy", [*clippy, "--", "-D", "warnings"]))
        found.append(Linter("rustfmt", ["cargo", "fmt", "--all", "--check"]))
    found += [
        Linter("ruff check", [*python, "ruff", "check", "-q", "."]),
        Linter("ruff format", [*python, "ruff", "format", "-q", "--check", "."]),
        Linter("mypy", [*python, "mypy", "--no-error-summary"]),
        Linter("shellcheck", ["shellcheck", *_shell_files(files)]),
        Linter("clang-format", ["clang-format", "--dry-run", "-Werror", *_c_files(repo, files)]),
    ]
    return found + _checkpatch(repo)


def lint(repo: Path, report: Report, all_figures: bool = False) -> list[str]:
    """Run all and give their output to *report*; return the names of those with findings.

    As many run at once as the host has cores, because most of them use one. A figure that is older
    than the code that it measures is reported; only with *all_figures* it counts as a finding,
    because measuring takes an hour of an idle machine.
    """
    failed = []
    wanted = linters(repo)
    children = Children()

    def run_one(linter: Linter) -> Done:
        with owned_by(children):
            done = run(linter.argv, cwd=repo, env=cargo_env(), check=False)
        shown.advance()
        return done

    with (
        step("linters", len(wanted), "linters") as shown,
        ThreadPoolExecutor(os.cpu_count(), "rem-lint") as pool,
    ):
        try:
            running = [pool.submit(run_one, linter) for linter in wanted]
            findings = tidy(repo)
            ended = [future.result() for future in running]
        except BaseException:
            children.end()
            raise
    for linter, done in zip(wanted, ended, strict=True):
        if not done.ok:
            report(f"{linter.name}: findings")
            report((done.stdout + done.stderr).rstrip())
            failed.append(linter.name)
    for finding in findings:
        report(str(finding))
    failed += ["tidy"] if findings else []
    figures = check(repo)
    for figure in figures:
        report(str(figure))
    if any(all_figures or figure.kind not in TO_MEASURE for figure in figures):
        failed.append("docs")
    return failed


def format_all(repo: Path) -> None:
    """Rewrite every file in the form that lint() checks."""
    files = project_files(repo)
    python = [sys.executable, "-m", "ruff"]
    run([*python, "check", "-q", "--fix-only", "."], cwd=repo)
    run([*python, "format", "-q", "."], cwd=repo)
    run(["clang-format", "-i", *_c_files(repo, files)], cwd=repo)
    if (repo / "Cargo.toml").exists():
        run(["cargo", "fmt", "--all"], cwd=repo, env=cargo_env())


def _shell_files(files: list[Path]) -> list[Path]:
    def first(path: Path) -> list[str]:
        with path.open("rb") as opened:
            return [opened.readline(80).decode("utf-8", errors="replace").rstrip()]

    return [path for path in files if is_shell(first(path))]


def _c_files(repo: Path, files: list[Path]) -> list[Path]:
    def ours(path: Path) -> bool:
        folders = [repo / folder for folder in KERNEL_FOLDERS]
        if any(path.is_relative_to(folder) for folder in folders):
            return False
        return path.relative_to(repo).parts[0] in C_FOLDERS and path.suffix in (".c", ".h")

    return [path for path in files if ours(path)]


def _checkpatch(repo: Path) -> list[Linter]:
    """The kernel's own linter."""
    words = ["--no-tree", "--quiet", "--no-summary", "--terse", "--show-types"]
    words += ["--ignore", ",".join(CHECKPATCH_IGNORES)]
    base: list[str | Path] = ["perl", need(Checkpatch()), *words]
    sources = [
        path
        for path in project_files(repo)
        if any(path.is_relative_to(repo / folder) for folder in KERNEL_FOLDERS)
        and path.suffix in (".c", ".h", ".S")
        and not path.name.endswith("_trace.h")  # trace events have a form of their own
    ]
    folders = ("patches", "mutants")
    patches = sorted(p for name in folders for p in (repo / "kernel" / name).glob("*.patch"))
    found = [Linter("checkpatch", [*base, "--strict", "-f", *sources])] if sources else []
    return found + ([Linter("checkpatch of patches", [*base, *patches])] if patches else [])
