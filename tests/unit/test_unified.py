# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loader with its files as sections: what loader/core/pe.c reads is what was put in."""

from __future__ import annotations

import ctypes
import hashlib
import struct
import subprocess
from pathlib import Path

import pytest

from lab.errors import InfraError
from lab.machine.unified import ALIGN_BYTES, SECTIONS, unified
from lab.paths import repo_dir

HEAD = (repo_dir() / "loader/host/corpus/pe/loader").read_bytes()
IMAGE_AT = 0x40 + 24 + 56
FILES = {"vmlinuz": b"k" * 5000, "cmdline": b"console=ttyS0", "initrd": b"", "protected": b"s\n"}


def loader() -> bytes:
    """The headers of a loader, with as many zeros as its sections say."""
    file_bytes = max(sum(struct.unpack_from("<II", HEAD, at + 16)) for at in (0x148, 0x170))
    return HEAD + bytes(file_bytes - len(HEAD))


# As in remctl/src/unified.rs, which writes the same bytes.
GOLDEN = "d0ddaa0278e5150353d2a3059ce3f82e9b3b9a6bb83910144cdaa81fc4a763df"


class Section(ctypes.Structure):
    _fields_ = (("at", ctypes.c_uint32), ("bytes", ctypes.c_uint32))


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("pe") / "pe.so"
    sources = [repo_dir() / "loader" / "core" / name for name in ("pe.c", "interval.c")]
    words = ["gcc", "-std=c17", "-shared", "-fPIC", "-o", str(out), *map(str, sources)]
    subprocess.run(words, check=True)
    return ctypes.CDLL(str(out))


def test_loader_finds_each_file(core: ctypes.CDLL) -> None:
    image = unified(loader(), FILES)
    assert core.pe_image_bytes(image) == struct.unpack_from("<I", image, IMAGE_AT)[0]
    found = Section()
    for name, data in FILES.items():
        assert core.pe_find(image, SECTIONS[name], ctypes.byref(found)) & 1 == bool(data)
        if data:
            assert found.bytes == len(data)
            assert place_in_file(image, found.at, found.bytes) == data


def place_in_file(image: bytes, at: int, count: int) -> bytes:
    """What firmware loads to *at*."""
    for section in range(0x148, ALIGN_BYTES, 40):
        base, raw_bytes, raw = struct.unpack_from("<III", image, section + 12)
        if base == at:
            assert raw_bytes >= count and raw % ALIGN_BYTES == 0
            return image[raw : raw + count]
    raise AssertionError(f"no section at {at:#x}")


def test_what_was_there_before_stays() -> None:
    image = unified(loader(), FILES)
    changed = [at for at in range(len(loader())) if image[at] != loader()[at]]
    assert set(changed) <= {0x46, *range(IMAGE_AT, IMAGE_AT + 4), *range(0x148 + 80, ALIGN_BYTES)}
    assert unified(loader(), {}) == loader()


def test_bytes_are_those_of_remctl() -> None:
    assert hashlib.sha256(unified(loader(), FILES)).hexdigest() == GOLDEN


def test_loader_without_room_is_refused() -> None:
    full = bytearray(loader())
    struct.pack_into("<H", full, 0x46, 93)
    with pytest.raises(InfraError):
        unified(bytes(full), FILES)


def test_names_are_those_of_the_loader() -> None:
    source = Path(repo_dir() / "loader/entry/boot_efi.c").read_text("utf-8")
    for name in SECTIONS.values():
        assert f'"{name.decode()}"' in source
