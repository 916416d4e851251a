# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packages that are fetched for a guest with Debian's own kernel."""

from __future__ import annotations

import pytest

from lab.errors import InfraError
from lab.setup.stock import library_packages

SHOWN = """xfsprogs
  Depends: libc6
  Depends: libinih1
  Depends: {urcu}
  Depends: <python3:any>
    python3
btrfs-progs
  Depends: liblzo2-2
  Depends: libudev1
"""


@pytest.mark.parametrize("urcu", ["liburcu8", "liburcu8t64"])
def test_libraries_have_the_names_of_the_release(urcu: str) -> None:
    names = library_packages(SHOWN.format(urcu=urcu))
    assert names == ["libinih1", urcu, "liblzo2-2", "libudev1"]


def test_missing_library_is_an_error() -> None:
    with pytest.raises(InfraError, match="liburcu"):
        library_packages(SHOWN.format(urcu="libc6"))
