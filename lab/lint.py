# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Formatters and linters of every language here: one list, used by `rem test` and `rem fmt`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.paths import cache_dir
from lab.run import run
from lab.setup.plugin import cargo_env
from lab.tidy import is_shell, project_files, tidy

C_FOLDERS = (
    "format",
    "loader",
    "guest",
    "heap",
    "off2f",
    "pm",
    "tests",
)  # but for those of checkpatch's
KERNEL_FOLDERS = (
    "kernel",
    "pm/kernel",
    "pm/init",
    "off2f/kernel",
)
# Meant for mails to Linux's maintainers, not for a project with its own licence table.
CHECKPATCH_IGNORES = (
    "FILE_PATH_CHANGES",
    "SPDX_LICENSE_TAG",
    "COMMIT_MESSAGE",
    "MISSING_SIGN_OFF",
    "EMAIL_SUBJECT",
    "COMMIT_LOG_LONG_LINE",
    "UNDOCUMENTED_SETUP",
)

Say = Callable[[str], None]


@dataclass(frozen=True)
class Linter:
    """A command that says nothing and ends with 0 when all is well."""

    name: str
    argv: Sequence[str | Path]


def linters(repo: Path) -> list[Linter]:
    """What applies to this checkout."""
    files = project_files(repo)
    python = [sys.executable, "-m"]
    found = [
        Linter("ruff check", [*python, "ruff", "check", "-q", "."]),
        Linter("ruff format", [*python, "ruff", "format", "-q", "--check", "."]),
        Linter("mypy", [*python, "mypy", "--no-error-summary"]),
        Linter("shellcheck", ["shellcheck", *_shell_files(files)]),
        Linter("clang-format", ["clang-format", "--dry-run", "-Werror", *_c_files(repo, files)]),
    ]
    if (repo / "Cargo.toml").exists():
        clippy = ["cargo", "clippy", "-q", "--workspace", "--all-targets", "--locked"]
        found += [
            Linter("rustfmt", ["cargo", "fmt", "--all", "--check"]),
            Linter("clippy", [*clippy, "--", "-D", "warnings"]),
        ]
    return found + _checkpatch(repo)


def lint(repo: Path, say: Say) -> list[str]:
    """Run all; what they say goes to `say`. Returns the names of those that are not content."""
    failed = []
    for linter in linters(repo):
        done = run(linter.argv, cwd=repo, env=cargo_env(), check=False)
        if not done.ok:
            say(f"{linter.name}: not content")
            say((done.stdout + done.stderr).rstrip())
            failed.append(linter.name)
    findings = tidy(repo)
    for finding in findings:
        say(str(finding))
    return failed + (["tidy"] if findings else [])


def format_all(repo: Path) -> None:
    """Rewrite every file in the form that `lint` wants."""
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
    """The kernel's own linter, from the source that the kernel was built from, if it was."""
    scripts = sorted((cache_dir() / "build").glob("linux-*/scripts/checkpatch.pl"))
    if not scripts:
        return []
    words = ["--no-tree", "--quiet", "--no-summary", "--terse", "--show-types"]
    base: list[str | Path] = ["perl", scripts[-1], *words, "--ignore", ",".join(CHECKPATCH_IGNORES)]
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
