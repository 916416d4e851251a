# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The packages that are fetched for a guest with Debian's own kernel."""

from __future__ import annotations

import pytest

from lab.errors import InfraError
from lab.setup import stock_headers
from lab.setup.stock import library_packages
from lab.setup.stock_headers import image_package

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


@pytest.mark.parametrize(
    ("offered", "version", "package"),
    [
        (
            {"linux-image-1-amd64": ["9"], "linux-image-1-amd64-unsigned": ["9"]},
            "",
            "linux-image-1-amd64",
        ),
        ({"linux-image-1-amd64-unsigned": ["9"]}, "", "linux-image-1-amd64-unsigned"),
        (
            {"linux-image-1-amd64": ["8"], "linux-image-1-amd64-unsigned": ["9"]},
            "9",
            "linux-image-1-amd64-unsigned",
        ),
        ({"linux-image-1-amd64": ["8"]}, "9", ""),
        ({}, "", ""),
    ],
)
def test_kernel_that_is_not_signed_yet_is_taken_unsigned(
    monkeypatch: pytest.MonkeyPatch, offered: dict[str, list[str]], version: str, package: str
) -> None:
    def versions_of(names: list[str]) -> dict[str, list[str]]:
        return {name: offered.get(name, []) for name in names}

    monkeypatch.setattr(stock_headers, "apt_versions_of", versions_of)
    assert image_package("1-amd64", version) == package
