# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A page as headless Chromium sees it: a script at its end reports what it found."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

LIMIT_S = 600
FIRST = """<script>
const seen = {errors: []};
window.onerror = message => { seen.errors.push(String(message)); };
</script>"""
LAST = """<script>
window.addEventListener('load', () => {
SCRIPT
const out = document.createElement('pre');
out.id = 'seen';
out.textContent = JSON.stringify(seen);
document.body.append(out);
});
</script>"""


def seen_by(browser: Path, html: str, script: str, folder: Path, width_px: int = 1000) -> Any:
    """What *script* puts into the object `seen` when all is loaded, and `seen.errors` of all
    scripts. *folder* is for files of the browser."""
    path = folder / "page.html"
    probe = LAST.replace("SCRIPT", script)
    path.write_text(
        html.replace("<style>", f"{FIRST}<style>", 1).replace("</html>", probe + "</html>"),
        encoding="utf-8",
    )
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += [f"--user-data-dir={folder / 'profile'}", f"--window-size={width_px},900"]
    done = subprocess.run(
        [browser, *words, "--dump-dom", path.as_uri()],
        text=True,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, flags=re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(unescape(found[1]))
