# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem docs --check` finds each kind of figure that is not true, and nothing else.

Method: a small repository with one source of figures and one document; each test breaks one thing.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.docs import check, marks
from lab.docs.code_key import code_only
from lab.docs.records import Record, Source, measured_key, read_table, write_record
from lab.docs.refresh import refresh
from lab.errors import RemError
from lab.run import run

TABLE = """
[source.stops]
command = "bench stop-go"
measures = ["kernel"]
[[given]]
document = "README.md"
texts = ["16 ms"]
source = "ATX12V design guide"
"""
REPO = Path(__file__).resolve().parents[2]
CODE = "/* why */\nint bound_ns = 5; // a comment\n"
DOCUMENT = "A Stop takes <!--fig stops.max_ns ms.2-->2.96\xa0ms<!--/fig-->; ATX holds 16 ms.\n"
SOURCE = Source("stops", "bench stop-go", ("kernel",))
FIGURES = {"max_ns": {"value": 2_960_000, "unit": "ns", "kind": "modelled"}}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "kernel" / "a.c").write_text(CODE)
    (tmp_path / "docs" / "figures.toml").write_text(TABLE)
    (tmp_path / "README.md").write_text(DOCUMENT)
    run(["git", "init", "-q"], cwd=tmp_path)
    record(tmp_path)
    return tmp_path


def record(repo: Path) -> None:
    key = measured_key(repo, SOURCE, [repo / "kernel" / "a.c"])
    write_record(repo, SOURCE, Record(SOURCE.command, key, FIGURES, ("all is well",)))


def kinds(repo: Path) -> list[str]:
    return [finding.kind for finding in check.check(repo)]


def test_true_document_has_no_findings(repo: Path) -> None:
    assert kinds(repo) == []


def test_every_quantity_of_this_repository_has_a_source() -> None:
    found = check.check(REPO)
    assert [str(one) for one in found if one.kind in {"wrong", "unsourced", "unused"}] == []


def test_figure_older_than_its_code_is_stale(repo: Path) -> None:
    (repo / "kernel" / "a.c").write_text(CODE.replace("5", "6"))
    assert kinds(repo) == ["stale"]


def test_name_of_rooms_stands_for_its_list(repo: Path) -> None:
    table = repo / "docs" / "figures.toml"
    table.write_text(TABLE.replace('["kernel"]', '["stop"]') + '[rooms]\nstop = ["kernel"]\n')
    assert kinds(repo) == []
    (repo / "kernel" / "a.c").write_text(CODE.replace("5", "6"))
    assert kinds(repo) == ["stale"]


def test_new_file_of_the_measured_code_makes_stale(repo: Path) -> None:
    (repo / "kernel" / "b.c").write_text("int b;\n")
    assert kinds(repo) == ["stale"]


def test_prose_in_the_code_does_not_make_stale(repo: Path) -> None:
    (repo / "kernel" / "a.c").write_text("/* another reason */\nint bound_ns = 5;\n\n")
    (repo / "kernel" / "README.md").write_text("# Kernel\n")
    assert kinds(repo) == []


def test_other_command_makes_stale(repo: Path) -> None:
    table = repo / "docs" / "figures.toml"
    table.write_text(TABLE.replace("bench stop-go", "bench stop-go --cpus 4"))
    assert kinds(repo) == ["stale"]


def test_edited_number_is_wrong(repo: Path) -> None:
    (repo / "README.md").write_text(DOCUMENT.replace("2.96", "1.96"))
    assert kinds(repo) == ["wrong"]


def test_figure_without_record_is_missing(repo: Path) -> None:
    (repo / "README.md").write_text(DOCUMENT.replace("max_ns", "min_ns"))
    assert kinds(repo) == ["missing"]
    (repo / "README.md").write_text(DOCUMENT.replace("stops.", "goes."))
    assert set(kinds(repo)) == {"missing", "unused"}


@pytest.mark.parametrize(
    "quantity", ["3 ms", "1.6 times", "0.92 J", "28 %", "5 GB/s", "2 to 3 us", "14 minutes"]
)
def test_quantity_by_hand_is_unsourced(repo: Path, quantity: str) -> None:
    (repo / "README.md").write_text(f"{DOCUMENT}It took {quantity}.\n")
    assert kinds(repo) == ["unsourced"]


def test_quantity_across_a_line_break_is_unsourced(repo: Path) -> None:
    (repo / "README.md").write_text(f"{DOCUMENT}It took 2 to\n  3\nus.\n")
    assert [str(one) for one in check.check(repo)][0].startswith("README.md:2: unsourced: '2 to 3")


def test_given_covers_its_own_quantities_only(repo: Path) -> None:
    (repo / "README.md").write_text(f"{DOCUMENT}Not 6 ms; nor 116 ms.\n")
    assert kinds(repo) == ["unsourced", "unsourced"]


def test_one_given_lists_several_quantities_of_a_document(repo: Path) -> None:
    table = repo / "docs" / "figures.toml"
    table.write_text(TABLE.replace('["16 ms"]', '["16 ms", "10 %", "55 ms"]'))
    (repo / "README.md").write_text(f"{DOCUMENT}At 10\n%, 55\xa0ms.\n")
    assert kinds(repo) == []


def test_source_that_no_document_shows_is_unused(repo: Path) -> None:
    (repo / "README.md").write_text("ATX holds 16 ms.\n")
    assert kinds(repo) == ["unused"]


def test_source_without_record_is_missing(repo: Path) -> None:
    (repo / "docs" / "figures" / "stops.json").unlink()
    assert kinds(repo) == ["missing", "missing"]  # the record, and the figure in README.md


def test_refresh_neither_continues_nor_changes_what_is_in_the_state_folder(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with results of a campaign of other code, at which `rem campaign` ends."""
    state = repo / "state"
    (state / "campaign").mkdir(parents=True)
    monkeypatch.setenv("REM_STATE", str(state))
    printed = json.dumps({"ok": True, "figures": FIGURES})
    command = repo / "rem"
    command.write_text(f"#!/bin/sh\nmkdir $REM_STATE/campaign && echo '{printed}'\n")
    command.chmod(0o755)
    assert refresh(repo, SOURCE).figures == FIGURES
    assert [path.name for path in state.iterdir()] == ["campaign"]


@pytest.mark.parametrize(
    ("ok", "missed", "misses", "why"),
    [
        (False, ["max_ns"], ("max_ns",), None),
        (False, ["max_ns"], (), "failed"),
        (False, ["max_ns", "other"], ("max_ns",), "failed: other"),
        (False, [], ("max_ns",), "failed"),
        (True, [], ("max_ns",), "max_ns: the aim is reached"),
        (True, [], (), None),
    ],
)
def test_only_aims_that_are_listed_as_missed_may_be(
    repo: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    ok: bool,
    missed: list[str],
    misses: tuple[str, ...],
    why: str | None,
) -> None:
    printed = json.dumps({"ok": ok, "missed": missed, "figures": FIGURES})
    command = repo / "rem"
    command.write_text(f"#!/bin/sh\necho a line >&2; echo '{printed}'\nexit {int(not ok)}\n")
    command.chmod(0o755)
    monkeypatch.setenv("REM_STATE", str(repo / "state"))
    log = repo / "state" / "docs-stops.log"
    source = replace(SOURCE, misses=dict.fromkeys(misses, "a reason"))
    if why is None:
        assert refresh(repo, source).figures == FIGURES
        assert not log.exists()
    else:
        with pytest.raises(RemError, match=f"{why}.*; all that it printed: {log}"):
            refresh(repo, source)
        assert log.read_text() == f"a line\n{printed}\n"


def test_record_of_other_code_is_not_used_for_another(repo: Path) -> None:
    """A command that reads the record of another one would have its figures as of today."""
    user = replace(SOURCE, name="user", uses=("stops",))
    (repo / "kernel" / "a.c").write_text(CODE.replace("5", "6"))
    with pytest.raises(RemError, match="user has figures of stops, whose record is stale"):
        refresh(repo, user)


def test_use_of_a_source_that_is_not_there_is_malformed(repo: Path) -> None:
    table = repo / "docs" / "figures.toml"
    table.write_text(TABLE.replace("measures", 'uses = ["nothing"]\nmeasures', 1))
    with pytest.raises(RemError, match="is malformed: 'nothing'"):
        read_table(repo)


def test_given_that_no_document_has_is_unused(repo: Path) -> None:
    (repo / "README.md").write_text(DOCUMENT.replace("16 ms", "enough"))
    assert kinds(repo) == ["unused"]
    table = repo / "docs" / "figures.toml"
    table.write_text(TABLE.replace('document = "README.md"', 'document = "*"'))
    assert kinds(repo) == ["unused"]
    (repo / "OTHER.md").write_text("ATX holds 16 ms.\n")
    assert kinds(repo) == []


def test_quantity_behind_a_mark_at_the_beginning_of_a_line_is_unsourced(repo: Path) -> None:
    mark = "<!--fig stops.max_ns ms.2-->2.96\xa0ms<!--/fig-->"
    (repo / "README.md").write_text(f"{DOCUMENT}It took\n{mark}, of 40 %.\n")
    assert kinds(repo) == ["unsourced"]


def test_quantities_in_code_and_commands_are_not_claims(repo: Path) -> None:
    text = "Use `--off 3 s`.\n\n    rem run  # 3 s\n\n```\n3 ms\n```\n"
    (repo / "README.md").write_text(DOCUMENT + text)
    assert kinds(repo) == []


def test_output_block_is_filled_from_the_record(repo: Path) -> None:
    text = "<!--output stops-->\n```\nold\n```\n"
    (repo / "README.md").write_text(DOCUMENT + text)
    assert kinds(repo) == ["wrong"]
    found, problems = marks.filled(text, lambda name: Record("", "", FIGURES, ("all is well",)))
    assert "```\nall is well\n```" in found and not problems


def test_output_block_shows_as_many_first_lines_as_its_mark_asks_for() -> None:
    text = "<!--output stops 2-->\n```\n```\n"
    found, problems = marks.filled(text, lambda name: Record("", "", FIGURES, ("a", "b", "c")))
    assert found == "<!--output stops 2-->\n```\na\nb\n```\n" and not problems
    assert marks.sources_of(text) == {"stops"}


def test_malformed_record_is_one_line(repo: Path) -> None:
    (repo / "docs" / "figures" / "stops.json").write_text(json.dumps({"command": 1}))
    with pytest.raises(RemError, match=r"stops\.json is malformed"):
        check.check(repo)


def test_marks_of_one_line_are_filled_each() -> None:
    text = "<!--fig stops.max_ns ms.1-->?<!--/fig--> and <!--fig stops.max_ns .0-->?<!--/fig-->"
    found, problems = marks.filled(text, lambda name: Record("", "", FIGURES))
    assert re.sub(r"<!--.*?-->", "", found) == "3.0\xa0ms and 2,960,000" and not problems


@pytest.mark.parametrize(
    "mark",
    [
        "<!--fig stops.max_ns ms/2-->3<!--/fig-->",
        "<!--fig stops max_ns-->3<!--/fig-->",
        "<!--fig stops.max_ns-->3",
        "<!--output stops-->\nno code block\n",
    ],
)
def test_malformed_mark_is_found(mark: str) -> None:
    found, problems = marks.filled(f"One.\n{mark}", lambda name: Record("", "", FIGURES))
    assert found == f"One.\n{mark}"
    assert [(one.line, one.what[:20]) for one in problems] == [(2, "no mark of this form")]


def test_figure_whose_name_has_spaces_is_filled() -> None:
    text = '<!--fig stops."mean share, in order" .2-->?<!--/fig-->'
    figures = {"mean share, in order": {"value": 0.527, "unit": "", "kind": "modelled"}}
    found, problems = marks.filled(text, lambda name: Record("", "", figures))
    assert found == text.replace("?", "0.53") and not problems


@pytest.mark.parametrize(
    ("value", "unit", "form", "text"),
    [
        (2_960_000, "ns", "ms.2", "2.96\xa0ms"),
        (0.051, "1", "%.1", "5.1%"),
        (0.051, "share", "%.1", "5.1%"),
        (1.1, "%", "%.1", "1.1%"),
        (1234567, "1", "", "1,234,567"),
        (1.0449, "ratio", ".2", "1.04"),
    ],
)
def test_forms_of_numbers(value: float, unit: str, form: str, text: str) -> None:
    assert marks.shown(value, unit, form) == text


def test_unit_that_does_not_convert_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be shown in ms"):
        marks.shown(1, "bytes", "ms.2")


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("a.c", 'puts("/* kept */"); /* gone */', 'puts("/* kept */");'),
        ("a.rs", "let a = 'x'; // gone", "let a = 'x';"),
        (
            "a.py",
            'def f():\n    """Gone."""\n    return "# kept"  # gone',
            'def f():\n    return "# kept"',
        ),
        ("a.toml", "a = 1 # gone\n# gone\n", "a = 1"),
        ("a.patch", "Subject\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n", "-old\n+new"),
    ],
)
def test_code_without_comments(name: str, text: str, code: str) -> None:
    assert code_only(name, text) == code
