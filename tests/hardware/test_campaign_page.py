# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: on a campaign's page every cell of the map can be seen, and a click on it shows the
command that replays one of its images.

Method: the page of a campaign of the model, with a script at its end that clicks on each cell and
records what it saw, in headless Chromium; the page's own script does the rest. The negative proof:
the same page without its script. In soak, because the browser is a package of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import Exit
from lab.setup.browser import Browser
from lab.setup.products import need
from tests.support.pages import seen_by
from tests.support.rem_runs import rem

LIMIT_S = 600
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

PROBE = """
seen.cells = [];
document.querySelectorAll('svg.map rect').forEach(cell => {
  const box = cell.getBoundingClientRect();
  cell.dispatchEvent(new MouseEvent('click', {bubbles: true}));
  seen.cells.push({
    width: box.width, height: box.height, wanted: cell.dataset.command,
    shown: document.getElementById('command').textContent,
    about: document.getElementById('about').textContent,
  });
});
"""


@pytest.fixture(scope="module")
def browser() -> Path:
    return need(Browser())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = tmp_path_factory.mktemp("state")
    done = rem(state, "campaign", "--model", "--images", "2000", limit_s=LIMIT_S)
    assert done.returncode == Exit.PASS, done.stderr
    yield next(state.glob("campaign/*.html")).read_text(encoding="utf-8")


def test_click_on_a_cell_shows_its_command(browser: Path, page: str, tmp_path: Path) -> None:
    seen = seen_by(browser, page, PROBE, tmp_path)
    assert seen["errors"] == []
    assert len(seen["cells"]) == page.count("data-command=") > 20
    for cell in seen["cells"]:
        assert cell["width"] > 0 and cell["height"] > 0
        assert cell["shown"] == cell["wanted"]
        assert re.match(r"\./rem replay \S+ --cut \d+", cell["shown"])
        assert "images; this one" in cell["about"]


def test_without_the_pages_script_the_probe_sees_nothing(
    browser: Path, page: str, tmp_path: Path
) -> None:
    dead = re.sub(r"<script>.*?</script>", "", page, count=1, flags=re.DOTALL)
    assert dead != page
    cells = seen_by(browser, dead, PROBE, tmp_path)["cells"]
    assert cells and all(cell["shown"] != cell["wanted"] for cell in cells)
