# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem tidy`: each rule finds a planted violation, at its bound and not before it, and no more."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.tidy.binaries import check_binary
from lab.tidy.changelog import check_changelog
from lab.tidy.check import check_file, counts, tidy
from lab.tidy.cycles import check_cycles, cycles
from lab.tidy.lengths import FILE_LINES_MAX, FUNCTION_LINES_MAX, SHELL_LINES_MAX
from lab.tidy.prose import COLUMNS_MAX
from lab.tidy.references import Project, references
from lab.tidy.rooms import BEGIN, END, SHOWN_IN, TABLE, Room, Rooms, check_rooms, with_table
from lab.tidy.units import lacks_unit

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


@pytest.mark.parametrize("path", ["work/x", "root/.cache", "home/someone/x"])
def test_path_of_one_machine_is_found(path: str) -> None:
    assert whats("README.md", f"see /{path}\n") != []


@pytest.mark.parametrize("path", ["HOME=/root", "~/.cache", "drivers/work/x", "/rootfs/work-list"])
def test_other_paths_are_no_finding(path: str) -> None:
    assert whats("README.md", f"see {path}\n") == []


def test_file_length_is_bounded() -> None:
    text = PY + "x = 1\n" * (FILE_LINES_MAX - 1)
    assert whats("lab/a.py", text) == []
    assert whats("lab/a.py", text + "x = 1\n") == [f"longer than {FILE_LINES_MAX} lines"]
    page = '.\\" SPDX-License-Identifier: Apache-2.0 OR MIT\n' + ".PP\n" * FILE_LINES_MAX
    assert whats("man/rem.1", page) == []
    assert whats("man/other.1", page) == [f"longer than {FILE_LINES_MAX} lines"]


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


WORDS = "word " * (COLUMNS_MAX // 5)


def test_markdown_is_wrapped() -> None:
    exact = WORDS[:-1] + "s"
    assert len(exact) == COLUMNS_MAX
    assert whats("docs/a.md", f"{exact}\n") == []
    assert whats("docs/a.md", f"\n{exact}s\n") == ["101 columns: wrap at 100"]
    assert whats("docs/a.md", f"- a\n\n    {exact}\n") == ["104 columns: wrap at 100"]
    assert whats("docs/a.md", f"    code\n{exact}s\n```\n```\n- {exact}\n") != []
    assert whats("LICENSES/a.txt", f"{exact}s\n") == []


@pytest.mark.parametrize(
    "text",
    [
        f"| {WORDS}{WORDS}|",
        f"```\n{WORDS}{WORDS}\n```",
        f"For example:\n\n    {WORDS}{WORDS}\n\n    {WORDS}{WORDS}",
        "- " + "x" * 99,
        f"<!--fig a.b-->1<!--/fig--> {WORDS}",
    ],
)
def test_tables_code_and_figures_are_not_wrapped(text: str) -> None:
    assert whats("docs/a.md", f"{text}\n") == []


@pytest.mark.parametrize("word", ["Who" + "ever", "an" + "ew", "is " + "had"])
def test_idiom_is_found_in_prose_and_comments(word: str) -> None:
    for name, before in (("docs/a.md", ""), ("lab/a.py", f"{PY}# "), ("kernel/stop/a.c", C)):
        assert len(whats(name, f"{before}{word}\n")) == 1


@pytest.mark.parametrize("word", ["renew", "a lookup", "bytes that were asked for", "Hadamard"])
def test_other_words_are_no_idiom(word: str) -> None:
    assert whats("docs/a.md", f"{word}\n") == []


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


@pytest.mark.parametrize(
    "name",
    ["time_ns", "size_bytes_max", "power_w", "energy_left_pj", "start_ticks", "runtime", "sizes"],
)
def test_name_with_its_unit_is_accepted(name: str) -> None:
    assert not lacks_unit(name)


@pytest.mark.parametrize("name", ["timeout", "stop_time", "size", "energy_left", "max_latency_max"])
def test_name_without_its_unit_is_found(name: str) -> None:
    assert lacks_unit(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lab/a.py", f"{PY}@dataclass\nclass A:\n    timeout: float = 1.0\n"),
        ("lab/a.py", f"{PY}@dataclass\nclass A:\n    size: Annotated[int, 1] = 1\n"),
        ("lab/a.py", f"{PY}def f(size: int | None) -> None: ...\n"),
        ("lab/a.py", f"{PY}def f(*, delay: float) -> None: ...\n"),
        ("heap/src/a.rs", f"// {PY[2:]}pub struct A {{\n    pub latency: Option<u64>,\n}}\n"),
        ("format/a.h", "/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */\n"
         "struct a {\n\trem_u64 length;\n};\n"),
    ],
)  # fmt: skip
def test_quantity_without_unit_is_found(name: str, text: str) -> None:
    assert [what for what in whats(name, text) if "does not end in its unit" in what]


def test_text_and_other_types_need_no_unit() -> None:
    assert whats("lab/a.py", f"{PY}def f(size: str, when: int) -> None: ...\n") == []
    assert whats("lab/a.py", f"{PY}class A:\n    size: int = 1\n") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lab/bench/off2f.py", "READ_NS = 80_000\n"),
        ("lab/bench/off2f.py", "DISK_BYTES_PER_NS = 3.0  # of data sheets\n"),
        ("experiments/lpc-f4/experiment.py", "CORE_W = 6\n"),
        ("models/power/src/psu.rs", "const LINE_WRITE_PJ: u64 = 57_000;\n"),
        ("machine/cache/src/timing.rs", "    pub const MEMORY_READ_NS: f64 = 66.0; // DRAM\n"),
    ],
)
def test_number_of_a_part_is_found_outside_its_table(name: str, text: str) -> None:
    assert [what for what in whats(name, text) if "models/parts" in what]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lab/bench/off2f.py", 'READ_NS = int(part_number("nvme", "read_ns"))\n'),
        ("lab/bench/stop_go.py", "STOP_MAX_NS = 300_000\n"),  # an aim
        ("experiments/off-f10/experiment.py", "SLOWER_READ_NS = (500_000, 1_000_000)\n"),  # a sweep
        ("lab/machine/config.py", "READ_NS = 1\n"),  # not measured with
        ("models/power/src/units.rs", "pub const PS_PER_NS: u64 = 1000;\n"),
    ],
)
def test_other_numbers_are_no_parts(name: str, text: str) -> None:
    assert not [what for what in whats(name, text) if "models/parts" in what]


@pytest.mark.parametrize("data", [b"\x7fELF\x02", b"text" * 4000 + b"\0"])
def test_binary_is_refused_outside_named_folders(data: bytes) -> None:
    assert [finding.rule for finding in check_binary("loader/build/tool", data)] == ["binary"]
    for allowed in ("format/golden/x.bin", "loader/host/corpus/acpi/1", "tests/unit/x.bin"):
        assert list(check_binary(allowed, data)) == []
    assert list(check_binary("loader/build/tool", b"text only")) == []


TREE = "kernel/x.h include/linux/rem/x.h\n"
FILES = {
    "kernel/tree.txt": TREE,
    "kernel/x.h": "",
    "kernel/a.c": "#include <linux/rem/x.h>\n#include <linux/mm.h>\n",
    "format/f.h": "",
    "other/f.h": "",
    "loader/core/c.h": "",
    "loader/core/a.c": '#include "c.h"\n#include "../hw/h.h"\n#include "unknown.h"\n',
    "loader/hw/h.h": '#include "f.h"\n',
    "loader/Makefile": "HEADERS := ../format/*.h # ../other\n",
    "crate/Cargo.toml": 'a = { path = "../format" }\n',
    "crate/src/a.rs": 'const A: &str = include_str!("../../format/f.h");\n',
    "crate/tests/t.rs": 'let f = dir.join("../other/f.h");\n',
    "lab/run.py": "",
    "lab/machine/__init__.py": "from lab.machine.parts import Part\n",
    "lab/machine/parts.py": "import os\nfrom lab import run\n",
    "tests/t.py": "def test():\n    from lab.machine import Machine\n",
}


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("kernel/a.c", {"kernel/x.h"}),
        ("kernel/tree.txt", {"kernel/x.h"}),
        ("loader/core/a.c", {"loader/core/c.h", "loader/hw/h.h"}),
        ("loader/Makefile", {"format"}),
        ("crate/Cargo.toml", {"format"}),
        ("crate/src/a.rs", {"format/f.h"}),
        ("crate/tests/t.rs", {"other/f.h"}),
        ("lab/machine/__init__.py", {"lab/machine/parts.py"}),
        ("lab/machine/parts.py", {"lab/run.py"}),
        ("tests/t.py", {"lab/machine/__init__.py"}),
    ],
)
def test_references_of_every_language_are_found(name: str, targets: set[str]) -> None:
    found = references(Project.of(FILES), name, FILES[name])
    assert {reference.target for reference in found} == targets


def rooms(**uses: tuple[str, ...]) -> Rooms:
    folders = ("kernel", "format", "other", "loader", "crate", "lab", "tests")
    return Rooms(tuple(Room(folder, "rule", uses.get(folder, ())) for folder in folders))


ALLOWED = {"loader": ("format",), "crate": ("format", "other"), "tests": ("lab",)}


def test_allowed_edges_are_no_finding() -> None:
    files = {**FILES, "loader/hw/h.h": '#include "../../format/f.h"\n'}
    assert list(check_rooms(rooms(**ALLOWED), files)) == []


@pytest.mark.parametrize("edge", [("loader", "format"), ("crate", "other"), ("tests", "lab")])
def test_edge_that_is_not_in_the_table_is_found(edge: tuple[str, str]) -> None:
    files = {**FILES, "loader/hw/h.h": '#include "../../format/f.h"\n'}
    room, other = edge
    fewer = {**ALLOWED, room: tuple(one for one in ALLOWED[room] if one != other)}
    found = list(check_rooms(rooms(**fewer), files))
    assert found and all(finding.rule == "edge" for finding in found)
    assert f"{room} may not use {other}" in found[0].what


def test_edge_that_nothing_uses_is_found() -> None:
    files = {**FILES, "loader/hw/h.h": '#include "../../format/f.h"\n'}
    found = list(check_rooms(rooms(**ALLOWED, kernel=("format",)), files))
    assert [finding.what for finding in found] == [
        "kernel may use format and does not: remove the edge"
    ]


def test_file_without_a_room_and_edge_to_no_room_are_found() -> None:
    files = {**FILES, "loader/hw/h.h": "", "attic/a.c": ""}
    found = [f.what for f in check_rooms(rooms(**ALLOWED, lab=("cellar",)), files)]
    assert f"is in no room: add one to {TABLE}" in found
    assert "lab uses cellar, which is no other room" in found


def test_file_belongs_to_the_innermost_room() -> None:
    table = Rooms((Room("pm", "a"), Room("pm/core", "b"), Room("pm/core/x.c", "c")))
    assert [table.of(name) for name in ("pm/a.c", "pm/core/a.c", "pm/core/x.c")] == [*table.rooms]
    assert table.of("pmx/a.c") is None


def test_cycles_are_found_with_lazy_imports() -> None:
    files = {
        "lab/a.py": "from lab import b\n",
        "lab/b.py": "def f():\n    import lab.c\n",
        "lab/c.py": "from lab.a import x\n",
        "lab/d.py": "from lab import a\n",
    }
    found = list(check_cycles(rooms(), files))
    assert [(one.file, one.what) for one in found] == [
        ("lab/a.py", "imports itself by way of lab/b.py, lab/c.py")
    ]


def test_cycle_of_rooms_without_a_cycle_of_modules_is_found() -> None:
    files = {
        "lab/a.py": "from tests import b\n",
        "lab/c.py": "",
        "tests/b.py": "",
        "tests/d.py": "from lab import c\n",
    }
    found = list(check_cycles(rooms(), files))
    assert [one.what for one in found] == ["rooms import each other: lab, tests"]


def test_components_of_a_graph() -> None:
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}}
    assert cycles(graph) == [["a", "b"], ["c", "d", "e"]]


def test_table_in_the_document_follows_the_rooms() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    new = with_table(document, rooms(crate=("format",)))
    assert "| `crate` | rule | `format` |" in new and "old" not in new
    assert new.startswith("before\n") and new.endswith("\nafter\n")
    assert with_table(new, rooms(crate=("format",))) == new
    assert with_table("no marks", rooms()) == "no marks"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A small repository that keeps every rule."""
    table = '[room."lab"]\nrule = "a rule"\n[room."loader"]\nrule = "b"\n'
    files = {
        "CHANGELOG.md": CHANGELOG,
        SHOWN_IN: with_table(f"{BEGIN}\n{END}\n", Rooms.parse(table)),
        TABLE: f"{PY}{table}",
        "lab/a.py": PY,
        "loader/a.c": f"// {PY[2:]}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_clean_repository_has_no_findings(repo: Path) -> None:
    assert tidy(repo) == []
    assert counts([]) == {"findings": 0, "edge_exceptions": 0, "binaries": 0}


@pytest.mark.parametrize(
    ("name", "data", "figures"),
    [
        ("lab/tool", b"\x7fELF\0", {"findings": 1, "edge_exceptions": 0, "binaries": 1}),
        (
            "loader/b.c",
            f'// {PY[2:]}#include "../lab/a.py"\n'.encode(),
            {"findings": 1, "edge_exceptions": 1, "binaries": 0},
        ),
        ("lab/b.py", b"x = 1\n", {"findings": 1, "edge_exceptions": 0, "binaries": 0}),
        (SHOWN_IN, b"no table\n", {"findings": 1, "edge_exceptions": 0, "binaries": 0}),
    ],
)
def test_planted_violation_is_counted(
    repo: Path, name: str, data: bytes, figures: dict[str, int]
) -> None:
    (repo / name).write_bytes(data)
    assert counts(tidy(repo)) == figures
