# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Goal: the configuration of a machine with volatile caches, and what is refused before a start.

Method: the pure parts, and files of a few pages; no QEMU.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import InfraError, UsageError
from lab.machine import caches
from lab.machine.config import MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.memories import MEMORY_PROFILE
from lab.machine.qemu import NVRAM_PHYS, BootOptions, Wires, build_command

CONFIG = MachineConfig(
    name="m",
    kernel=Path("k"),
    loader=Path("l"),
    network="none",
    nvram_bytes=256 << 20,
    icount=True,
    plugin="plugin.so,ctl=c",
    caches="lightpc",
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MachineFiles:
    monkeypatch.setattr(caches, "FAST_DIR", tmp_path / "fast")
    (tmp_path / "fast").mkdir()
    files = MachineFiles(tmp_path / "m")
    files.directory.mkdir()
    with files.nvram(CONFIG).open("wb") as media:
        media.write(b"what outlived the power")
        media.truncate(CONFIG.nvram_bytes)
    return files


def test_qemu_gets_the_memory_and_the_plugin_both_files(files: MachineFiles) -> None:
    command = build_command(CONFIG, files, Wires.by_path(), BootOptions(), None)
    nvram = next(word for word in command if "id=nvram" in word)
    assert f"mem-path={files.memory(CONFIG)}," in nvram
    plugin = command[command.index("-plugin") + 1]
    assert plugin == (
        f"plugin.so,ctl=c,cache=lightpc,memory={files.memory(CONFIG)},"
        f"media={files.nvram(CONFIG)},trace={files.trace},writers={files.writers(CONFIG)},"
        f"flushes={files.flushes},base={NVRAM_PHYS:#x}"
    )
    without = replace(CONFIG, caches=None)
    command = build_command(without, files, Wires.by_path(), BootOptions(), None)
    assert command[command.index("-plugin") + 1] == "plugin.so,ctl=c"
    assert any(f"mem-path={files.nvram(CONFIG)}," in word for word in command)


def test_power_on_begins_with_media_and_power_off_leaves_only_media(files: MachineFiles) -> None:
    assert files.seen(CONFIG) == files.nvram(CONFIG)
    caches.fill_memory(files, CONFIG)
    memory = files.memory(CONFIG)
    assert files.seen(CONFIG) == memory
    assert memory.stat().st_size == CONFIG.nvram_bytes
    assert memory.stat().st_mode & 0o077 == 0
    with memory.open("r+b") as file:
        assert file.read(23) == b"what outlived the power"
        file.seek(0)
        file.write(b"what no flush wrote")
    caches.keep_memory(files, CONFIG)
    assert not memory.exists()
    assert files.seen(CONFIG) == files.nvram(CONFIG)
    # Kept for people until power returns, but not for the machine.
    assert b"what no flush wrote" in files.at_cut(CONFIG).read_bytes()[:64]
    caches.drop_memory(files, CONFIG)
    assert not files.at_cut(CONFIG).exists()
    assert list(caches.FAST_DIR.iterdir()) == []
    caches.fill_memory(files, CONFIG)
    with memory.open("rb") as file:
        assert file.read(23) == b"what outlived the power"
    assert not files.at_cut(CONFIG).exists()


def test_media_of_another_size_is_refused_in_one_line(files: MachineFiles) -> None:
    with files.nvram(CONFIG).open("r+b") as media:
        media.truncate(1 << 20)
    with pytest.raises(InfraError, match="1048576 bytes and the machine 268435456"):
        caches.fill_memory(files, CONFIG)
    assert not files.memory(CONFIG).exists()


def test_profiles_are_checked_by_name() -> None:
    assert caches.check_profile("off") is None
    assert caches.check_profile("auto") == caches.DEFAULT_PROFILE
    assert caches.check_profile("wsp-d510") == "wsp-d510"
    with pytest.raises(UsageError, match=r"--caches vax: choose auto, off, .*wsp-c5528"):
        caches.check_profile("vax")


def test_memory_has_caches_of_its_own() -> None:
    assert caches.check_profile("auto", "dram") == MEMORY_PROFILE
    assert caches.check_profile("wsp-d510", "ocpmem:row_buffer=off") == "wsp-d510"
    with pytest.raises(UsageError, match=r"--memory needs volatile caches"):
        caches.check_profile("off", "dram")
    with pytest.raises(UsageError, match=r"--memory tape: choose one of ocpmem, .*dram"):
        caches.check_profile("auto", "tape")


def test_caches_without_icount_or_plugin_are_refused() -> None:
    for missing in ({"icount": False}, {"plugin": None}):
        with pytest.raises(UsageError, match="need --icount and the plugin"):
            replace(CONFIG, **missing)


def test_loss_needs_both_the_count_and_the_digest() -> None:
    lost = {"lost_lines": 3, "digest_due": 1, "digest_media": 2}
    assert caches.is_lost(lost)
    assert not caches.is_lost({**lost, "lost_lines": 0})
    assert not caches.is_lost({**lost, "digest_media": 1})
    assert not caches.is_lost(None)
