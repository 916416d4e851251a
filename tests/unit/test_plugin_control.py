# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The lab's side of the plugin's control file, with a thread that plays the plugin."""

from __future__ import annotations

import mmap
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import format as fmt
from lab.errors import InfraError, RemError
from lab.machine.plugin import PluginControl, PluginSpec, Snapshot, elapsed_ns

REQUEST, COMMAND, ARGUMENT, DONE, ERROR, NOW = (
    fmt.VIEWS.rem_plugin_ctl.fields[name].offset
    for name in ("request", "command", "argument", "done", "error", "now")
)
WAITED_NS = NOW + fmt.VIEWS.rem_plugin_snapshot.fields["waited_ns"].offset


class FakePlugin:
    """Answers commands in the file as the plugin does, and keeps them."""

    def __init__(self, path: Path, error: int = 0) -> None:
        self.commands: list[tuple[int, int, int]] = []
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), fmt.CONST["REM_PLUGIN_CTL_BYTES"])
        magic, version = fmt.CONST["REM_PLUGIN_MAGIC"], fmt.CONST["REM_PLUGIN_VERSION"]
        struct.pack_into("<QII", self._map, 0, magic, version, 2)
        self._error = error
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _word(self, offset: int) -> int:
        return int(struct.unpack_from("<I", self._map, offset)[0])

    def _serve(self) -> None:
        while not self._end.wait(0.001):
            request = self._word(REQUEST)
            if request == self._word(DONE):
                continue
            first, second = struct.unpack_from("<QQ", self._map, ARGUMENT)
            self.commands.append((self._word(COMMAND), first, second))
            struct.pack_into("<QQQQQQ", self._map, NOW, 1, 2**64 - 1, 7, 500, 100, 200)
            struct.pack_into("<QQ", self._map, WAITED_NS, 30, 40)
            struct.pack_into("<I", self._map, ERROR, self._error)
            struct.pack_into("<I", self._map, DONE, request)

    def close(self) -> None:
        self._end.set()
        self._thread.join()


@pytest.fixture
def control(tmp_path: Path) -> Iterator[PluginControl]:
    control = PluginControl(tmp_path / "ctl")
    control.prepare()
    yield control


def test_commands_reach_the_plugin_with_their_arguments(control: PluginControl) -> None:
    plugin = FakePlugin(control.path)
    control.wait_ready()
    control.arm_cut(1, 2**40)
    control.arm_cut_at(2, 0)
    control.arm_hold_up(10_000_000)
    control.reset_marks()
    control.disarm()
    plugin.close()
    assert plugin.commands == [
        (3, 1, 2**40),
        (4, 2, 0),
        (5, 10_000_000, 0),
        (6, 0, 0),
        (2, 0, 0),
    ]


def test_snapshot_has_a_count_for_each_vcpu_of_the_machine(control: PluginControl) -> None:
    plugin = FakePlugin(control.path)
    assert control.read() == Snapshot(
        cpu=None, halted_ns=7, count=(100, 200), waited_ns=(30, 40), cycle_ps=500
    )
    assert control.first(0) is None
    assert control.at_cut() is None
    plugin.close()


def test_refused_command_names_the_reason(control: PluginControl) -> None:
    plugin = FakePlugin(control.path, error=fmt.VIEWS.rem_plugin_error.REM_PLUGIN_RUNNING.value)
    with pytest.raises(RemError, match=r"REM_PLUGIN_ARM_CUT\(0, 5\): REM_PLUGIN_RUNNING"):
        control.arm_cut(0, 5)
    plugin.close()


def test_plugin_of_another_version_is_refused(control: PluginControl) -> None:
    plugin = FakePlugin(control.path)
    plugin._map[8:12] = (99).to_bytes(4, "little")
    with pytest.raises(InfraError, match="version 99"):
        control.wait_ready()
    plugin.close()


def test_argument_is_one_that_qemu_reads(tmp_path: Path) -> None:
    spec = PluginSpec(
        tmp_path / "a,b.so",
        cut=True,
        quantum=2000,
        pcs=(0x100000,),
        outs=((0x2F8, 0x7E),),
        user=True,
    )
    assert spec.argument(Path("/run/ctl")) == (
        f"{tmp_path}/a,,b.so,ctl=/run/ctl,count=on,cut=on,quantum=2000,pc=0x100000,out=0x2f8:0x7e,user=on"
    )
    assert (spec.pc_mark(), spec.out_mark(), spec.user_mark()) == (0, 1, 2)


def test_guest_time_is_the_largest_count_plus_halted_time() -> None:
    begin = Snapshot(cpu=None, halted_ns=1000, count=(10, 20))
    assert elapsed_ns(begin, Snapshot(cpu=0, halted_ns=1500, count=(110, 60))) == 600
    with pytest.raises(InfraError, match="icount"):
        elapsed_ns(begin, Snapshot(cpu=0, halted_ns=None, count=(110, 60)))


def test_waiting_counts_on_the_clock_of_the_vcpu_that_waited() -> None:
    begin = Snapshot(None, 0, (0, 0), waited_ns=(0, 0), cycle_ps=500)
    end = Snapshot(None, 5, (1000, 3000), waited_ns=(2000, 0), cycle_ps=500)
    assert elapsed_ns(begin, end) == 2505
