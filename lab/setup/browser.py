# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A browser for tests that look at pages: Debian's chromium, installed when first asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.errors import InfraError
from lab.setup.host import explain, is_root
from lab.setup.packages import apt_get
from lab.setup.progress import Progress

PACKAGE = "chromium"


def ensure_browser(progress: Progress) -> Path:
    """The program."""
    if shutil.which(PACKAGE) is None:
        if not is_root():
            raise InfraError(f"as root: apt-get install --no-install-recommends {PACKAGE}")
        with progress.step("browser: package chromium"):
            try:
                apt_get("update")
                apt_get("install", "--no-install-recommends", PACKAGE)
            except InfraError as error:
                raise explain(error, "installing chromium") from error
    found = shutil.which(PACKAGE)
    if found is None:
        raise InfraError(f"{PACKAGE} is installed and not in PATH: is /usr/bin in it?")
    return Path(found)
