# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: the page of `rem report` works: its tables can be sorted and filtered, its commands can be
copied, it fits on a narrow screen, and without scripts everything can be read.

Method: the page of this repository's records in headless Chromium, with a script at its end that
uses it as a reader would and reports what it saw. The negative proofs: the page without its own
script, and without the part of its style that is for narrow screens. In soak, because the browser
is a package of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest

from lab.errors import Exit
from lab.experiment.run import names
from lab.setup.browser import Browser
from lab.setup.products import need
from tests.support.pages import seen_by
from tests.support.rem_runs import rem

LIMIT_S = 600
NARROW_PX, WIDE_PX = 400, 1000
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

USE = """
const rows = name => [...document.getElementById(name).tBodies[0].rows]
  .filter(row => !row.classList.contains('detail'));
const shown = name => rows(name).filter(row => !row.hidden);
const column = (name, place) => shown(name).map(row => row.cells[place].textContent.trim());
const table = 'table-experiments';
seen.all = rows(table).length;
const form = document.querySelector(`form[data-table=${table}]`);
seen.formIsHidden = form.hidden;
const choose = (name, value) => {
  form.elements[name].value = value;
  form.dispatchEvent(new Event('input', {bubbles: true}));
};
choose('age', 'missing');
seen.missing = column(table, 8);
choose('age', '');
choose('verdict', 'accepted');
seen.accepted = column(table, 5);
choose('verdict', '');
choose('words', 'lpc-f16');
seen.words = column(table, 0);
choose('words', '');
seen.again = shown(table).length;
const heads = document.getElementById(table).tHead.rows[0].cells;
const press = place => heads[place].querySelector('button')?.click();
press(3);
seen.ascending = column(table, 3);
press(3);
seen.descending = column(table, 3);
seen.sorted = heads[3].getAttribute('aria-sort');
seen.copy = document.querySelectorAll('code.command + button').length;
seen.commands = document.querySelectorAll('code.command').length;
"""
# A window of the browser may not be as narrow as a telephone's, but a frame may.
FRAME = """<html><head><style></style></head><body>
<iframe width="{width}" height="900" srcdoc="{page}"></iframe></body></html>"""
LOOK = """
const page = document.querySelector('iframe').contentDocument;
page.querySelectorAll('details').forEach(one => { one.open = true; });
seen.screen = page.documentElement.clientWidth;
seen.width = page.documentElement.scrollWidth;
const box = element => element.getBoundingClientRect();
seen.hidden = [...page.querySelectorAll('tbody td, tbody th, h3, dd')]
  .filter(cell => cell.textContent.trim() && !box(cell).width).length;
seen.cells = page.querySelectorAll('tbody td').length;
seen.forms = [...page.querySelectorAll('form')].filter(form => box(form).width).length;
"""


@pytest.fixture(scope="module")
def browser() -> Path:
    return need(Browser())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("report")
    done = rem(folder, "report", "--out", str(folder / "page.html"), limit_s=LIMIT_S)
    assert done.returncode in (Exit.PASS, Exit.BROKEN), done.stderr
    yield (folder / "page.html").read_text(encoding="utf-8")


def look(browser: Path, page: str, folder: Path, width_px: int) -> Any:
    """The page with all details open, on a screen of a width."""
    html = FRAME.format(width=width_px, page=escape(page))
    return seen_by(browser, html, LOOK, folder)


def without_script(page: str) -> str:
    dead = re.sub(r"<script>.*?</script>", "", page, count=1, flags=re.DOTALL)
    assert dead != page
    return dead


def test_tables_are_sorted_and_filtered(browser: Path, page: str, tmp_path: Path) -> None:
    seen = seen_by(browser, page, USE, tmp_path)
    assert seen["errors"] == []
    assert seen["all"] == seen["again"] == len(names())
    assert not seen["formIsHidden"]
    assert seen["missing"] == ["never measured"] * len(seen["missing"])
    assert seen["accepted"] and all(int(count) > 0 for count in seen["accepted"])
    assert len(seen["words"]) == 1 and seen["words"][0].startswith("lpc-f16 ")
    numbers = [int(text) if text.isdigit() else 0 for text in seen["ascending"]]
    assert numbers == sorted(numbers) and numbers[0] < numbers[-1]
    turned = [int(text) if text.isdigit() else 0 for text in seen["descending"]]
    assert turned == numbers[::-1]
    assert seen["sorted"] == "descending"
    assert seen["copy"] == seen["commands"] > 0


def test_without_the_pages_script_nothing_is_sorted(
    browser: Path, page: str, tmp_path: Path
) -> None:
    seen = seen_by(browser, without_script(page), USE, tmp_path)
    assert seen["formIsHidden"] and seen["copy"] == 0 and seen["sorted"] is None
    assert len(seen["words"]) == seen["all"]


def test_all_can_be_read_without_scripts(browser: Path, page: str, tmp_path: Path) -> None:
    seen = look(browser, without_script(page), tmp_path, WIDE_PX)
    assert seen["hidden"] == 0 and seen["cells"] > 0
    assert seen["forms"] == 0  # they would do nothing


@pytest.mark.parametrize("width_px", [NARROW_PX, 700, 850, WIDE_PX])
def test_page_fits_on_the_screen(browser: Path, page: str, tmp_path: Path, width_px: int) -> None:
    seen = look(browser, page, tmp_path, width_px)
    assert seen["screen"] <= width_px
    assert seen["width"] <= seen["screen"]  # nothing to scroll to the right
    assert seen["hidden"] == 0


def test_without_its_style_for_narrow_screens_it_does_not_fit(
    browser: Path, page: str, tmp_path: Path
) -> None:
    wide = page.replace("@media (max-width", "@media (max-height: 0px) and (max-width")
    assert wide != page
    seen = look(browser, wide, tmp_path, NARROW_PX)
    assert seen["width"] > seen["screen"]
