# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem tidy`: each rule finds its breach, at the bound and not before it, and nothing else."""

from __future__ import annotations

import pytest

from lab.tidy.rules import (
    FILE_LINES_MAX,
    FUNCTION_LINES_MAX,
    SHELL_LINES_MAX,
    check_changelog,
    check_file,
)

PY = "# SPDX-License-Identifier: Apache-2.0 OR MIT\n"
C = "// SPDX-License-Identifier: GPL-2.0-only\n"
SH = "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0 OR MIT\n"
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- a\n\n## [0.1.0] - 2026-11-21\n"


def whats(name: str, text: str) -> list[str]:
    return [finding.what for finding in check_file(name, text)]


def test_licence_follows_the_folder() -> None:
    assert whats("lab/a.py", PY) == []
    assert whats("kernel/stop/a.c", C) == []
    assert whats("rem", SH) == []
    assert whats("lab/a.py", "x = 1\n") == ["no SPDX-License-Identifier: Apache-2.0 OR MIT"]
    assert "files here are GPL-2.0-only" in whats("kernel/stop/a.py", PY)[0]
    assert "files here are GPL-2.0-or-later" in whats("machine/plugin/src/a.rs", C)[0]
    both = "/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */\n"
    assert whats("format/a.h", both) == []


def test_licence_stands_in_the_first_line_that_can_hold_it() -> None:
    assert whats("lab/a.py", "\n" + PY) != []
    assert whats("tool", SH) == []
    assert whats("README.md", "# No line wanted\n") == []


@pytest.mark.parametrize("path", ["/work/x", "/root/.cache", "/home/someone/x"])  # tidy: a path
def test_path_of_one_machine_is_found(path: str) -> None:
    assert whats("README.md", f"see {path}\n") != []


@pytest.mark.parametrize("path", ["HOME=/root", "~/.cache", "drivers/work/x", "/rootfs/work-list"])
def test_other_paths_are_no_finding(path: str) -> None:
    assert whats("README.md", f"see {path}\n") == []


def test_file_length_is_bounded() -> None:
    text = PY + "x = 1\n" * (FILE_LINES_MAX - 1)
    assert whats("lab/a.py", text) == []
    assert whats("lab/a.py", text + "x = 1\n") == [f"longer than {FILE_LINES_MAX} lines"]


def test_python_function_is_bounded_without_signature_and_inner_functions() -> None:
    body = "    x = 1\n" * FUNCTION_LINES_MAX
    assert whats("lab/a.py", f"{PY}def f(\n    a,\n    b,\n):\n{body}") == []
    assert "71 lines in f" in whats("lab/a.py", f"{PY}def f():\n{body}    x = 1\n")[0]
    inner = "    def g():\n" + "        x = 1\n" * FUNCTION_LINES_MAX
    assert whats("lab/a.py", f"{PY}def f():\n{inner}    x = 1\n") == []


def test_c_function_is_bounded_with_its_braces() -> None:
    body = "\tx = 1;\n" * (FUNCTION_LINES_MAX - 2)
    assert whats("kernel/stop/a.c", f"{C}int f(void)\n{{\n{body}}}\n") == []
    found = whats("kernel/stop/a.c", f"{C}int f(void)\n{{\n{body}\tx = 1;\n}}\n")
    assert found == ["71 lines in int f(void), at most 70"]


def test_shell_is_short_or_python() -> None:
    code = "true\n" * SHELL_LINES_MAX
    assert whats("tool", SH + "# why\n\n" * 20 + code) == []
    assert whats("tool", SH + code + "true\n") == ["a shell script of over 30 lines"]


def test_changelog_form() -> None:
    assert check_changelog(CHANGELOG) == []
    for broken in (
        CHANGELOG.replace("# Changelog", "# Changes", 1),
        CHANGELOG.replace("## [Unreleased]\n", ""),
        CHANGELOG.replace("2026-11-21", "today"),
        CHANGELOG.replace("### Added", "### News"),
        "",
    ):
        assert check_changelog(broken) != []
