# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files of Debian packages that are not installed: each package's are one product."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab.progress import step
from lab.setup.fetch import unpack
from lab.setup.inputs import Inputs
from lab.setup.need import Site


def files_of(site: Site, package: str, files: Mapping[str, str]) -> Path:
    """A folder with *files* of the package: by the name that each gets, its place there."""

    def build(into: Path) -> None:
        with step(package), tempfile.TemporaryDirectory(dir=into) as scratch:
            unpack(package, [package], Path(scratch))
            for name, place in files.items():
                (Path(scratch) / place).rename(into / name)

    key = Inputs("packaged").add("package", package).add("files", repr(sorted(files.items()))).key()
    return site.product("packaged", key, build)
