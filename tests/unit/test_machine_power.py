# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real QEMU processes under the machine object: states, cuts, no orphans.

Method: a guest of 130 bytes (wire_guest.S) that handles the wire of PWR_OK, so that each boot takes
a fraction of a second and no kernel is needed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import Exit, InfraError, RemError
from lab.machine import Machine, MachineConfig, MachineState, lost_interrupt
from lab.machine.control import request
from lab.machine.cut_plan import UNANNOUNCED, CutPlan
from lab.machine.files import MachineFiles, MachineLock
from lab.machine.status import status_from_files
from lab.paths import repo_dir

LIMIT_S = 20.0
HOLD_UP_NS = 5_000_000_000


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("guest") / "guest.elf"
    flags = ["-m32", "-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none,-Ttext=0x100000"]
    source = Path(__file__).with_name("wire_guest.S")
    subprocess.run(["gcc", *flags, "-o", out, source], check=True)
    return out


@pytest.fixture
def config(guest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MachineConfig:
    # A long path on purpose: no socket may depend on its length.
    monkeypatch.setenv("REM_STATE", str(tmp_path / ("deep" * 30)))
    # Without an IOMMU, so that a lost interrupt is possible.
    return MachineConfig(name="m", kernel=guest, network="none", cpus=1, iommu=False)


@pytest.fixture
def machine(config: MachineConfig) -> Iterator[Machine]:
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        assert made.console is not None
        made.console.expect("R", LIMIT_S)
        yield made


def send(machine: Machine, byte: bytes) -> None:
    assert machine.console is not None
    machine.console.send(byte)


def eventually(true: Callable[[], object]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def process_is_there(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def test_announced_cut_waits_for_the_stop_and_kills_qemu(machine: Machine) -> None:
    record = machine.cut(CutPlan(hold_up_ns=HOLD_UP_NS))
    assert record.announced and record.echoed and record.stopped
    assert record.margin_ns is not None and record.stopped_after_ns is not None
    assert record.stopped_after_ns + record.margin_ns == HOLD_UP_NS
    assert record.qemu_status == -signal.SIGKILL
    assert record.gone and not process_is_there(record.qemu_pid)
    assert machine.state is MachineState.STOPPED


def test_plugin_that_is_missing_is_one_line(config: MachineConfig, tmp_path: Path) -> None:
    """QEMU's message and its log; with the plugin restored the machine starts."""
    missing = replace(config, plugin=str(tmp_path / "none.so"))
    with Machine.create(missing, destroy_on_exit=True) as machine:
        with pytest.raises(InfraError, match=r"none\.so") as caught:
            machine.boot()
        assert "\n" not in caught.value.message
        assert str(machine.files.qemu_log(1)) in caught.value.message
        assert machine.state is MachineState.CONFIGURED
        machine.config = config
        machine.boot()
        assert machine.console is not None
        machine.console.expect("R", LIMIT_S)


def test_unannounced_cut_gives_no_time(machine: Machine) -> None:
    record = machine.cut(UNANNOUNCED)
    assert not record.announced and not record.stopped and record.margin_ns is None
    assert record.qemu_status == -signal.SIGKILL and record.gone
    assert machine.state is MachineState.CUT


def test_stop_later_than_the_hold_up_is_a_cut(machine: Machine) -> None:
    send(machine, b"s")
    assert machine.console is not None
    machine.console.expect("D", LIMIT_S)
    record = machine.cut(CutPlan(hold_up_ns=20_000_000))
    assert not record.stopped and record.gone
    assert machine.state is MachineState.CUT


def test_resume_is_a_new_process_on_the_same_nvram(machine: Machine) -> None:
    nvram = machine.files.nvram(machine.config)
    first = machine.cut(CutPlan(hold_up_ns=HOLD_UP_NS))
    with nvram.open("r+b") as file:
        file.seek(0x40000)
        file.write(b"kept")
    machine.resume()
    assert machine.console is not None and machine.qemu is not None
    machine.console.expect("R", LIMIT_S)
    assert machine.qemu.pid != first.qemu_pid
    answer = machine.qemu.qmp.monitor("xp /4xb 0x100040000")
    assert answer.split()[1:] == ["0x6b", "0x65", "0x70", "0x74"]
    assert machine.boots == 2
    assert machine.cut(CutPlan(hold_up_ns=HOLD_UP_NS)).sequence != first.sequence


def test_media_can_be_read_by_their_owner_only(machine: Machine) -> None:
    """They hold every key in the guest's memory."""
    assert machine.files.nvram(machine.config).stat().st_mode & 0o077 == 0


def test_planned_stop_cuts_the_power(machine: Machine) -> None:
    pid = machine.qemu.pid if machine.qemu else 0
    send(machine, b"p")
    assert machine.wait_off(LIMIT_S) is MachineState.STOPPED
    assert not process_is_there(pid)


def test_guest_that_switches_itself_off_is_off(machine: Machine) -> None:
    send(machine, b"o")
    assert machine.wait_off(LIMIT_S) is MachineState.OFF


def test_qemu_that_ends_by_itself_is_a_failure(machine: Machine) -> None:
    assert machine.qemu is not None
    os.kill(machine.qemu.pid, signal.SIGSEGV)
    assert machine.wait_off(LIMIT_S) is MachineState.FAILED
    assert machine.why is not None and f"{-signal.SIGSEGV}" in machine.why


def test_reset_of_the_guest_is_seen(machine: Machine) -> None:
    assert machine.resets == 0
    send(machine, b"t")
    eventually(lambda: machine.resets == 1)
    assert machine.state is MachineState.RUNNING


def test_boot_that_hangs_halted_is_detected_and_repeated(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_interrupt, "CHECK_EVERY_S", 0.1)
    monkeypatch.setattr(lost_interrupt, "SAMPLES", 3)
    assert not lost_interrupt.hangs(machine), "its CPU polls"
    send(machine, b"h")
    with pytest.raises(lost_interrupt.LostInterrupt):
        lost_interrupt.expect(machine, "nothing more", LIMIT_S)
    machine.boot_again()
    assert machine.console is not None
    machine.console.expect("R", LIMIT_S)
    assert (machine.boots, machine.state) == (2, MachineState.RUNNING)


def test_machine_that_is_off_cannot_be_cut(machine: Machine) -> None:
    machine.cut(CutPlan(hold_up_ns=HOLD_UP_NS))
    with pytest.raises(RemError, match="stopped, not running") as caught:
        machine.cut(CutPlan(hold_up_ns=HOLD_UP_NS))
    assert caught.value.exit_code == Exit.USAGE


def test_two_machines_run_side_by_side(machine: Machine, config: MachineConfig) -> None:
    from dataclasses import replace

    with Machine.create(replace(config, name="other"), destroy_on_exit=True) as other:
        other.boot()
        assert other.console is not None
        other.console.expect("R", LIMIT_S)
        assert other.cut(CutPlan(hold_up_ns=HOLD_UP_NS)).stopped
        assert machine.state is MachineState.RUNNING
    assert machine.cut(CutPlan(hold_up_ns=HOLD_UP_NS)).stopped


def test_second_owner_is_refused(machine: Machine) -> None:
    with pytest.raises(RemError, match=str(os.getpid())):
        Machine.open(machine.config.name)
    with pytest.raises(RemError, match="rem resume"):
        Machine.create(machine.config)


def test_machine_that_could_not_be_made_leaves_nothing(config: MachineConfig) -> None:
    from dataclasses import replace

    with pytest.raises(RemError, match="missing"):
        Machine.create(replace(config, root=Path("/nonexistent")))
    assert not MachineFiles.of("m").directory.exists()


def test_qemu_that_does_not_start_gives_the_reason(config: MachineConfig) -> None:
    from dataclasses import replace

    broken = replace(config, devices=("no-such-device",))
    with Machine.create(broken, destroy_on_exit=True) as made:
        with pytest.raises(RemError, match="no-such-device"):
            made.boot()
        assert made.state is MachineState.CONFIGURED


@pytest.fixture
def supervisor(config: MachineConfig) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor of its own process, as `rem run --detach` starts it."""
    Machine.create(config).close()
    child = subprocess.Popen(
        [sys.executable, "-m", "lab.machine.supervisor", "m", '{"cold": false, "rtc_offset_s": 0}'],
        cwd=repo_dir(),
    )
    files = MachineFiles.of("m")
    eventually(lambda: files.read_state().get("state") == "running" and files.control.exists())
    yield child
    child.kill()
    child.wait()
    Machine.open("m").destroy()


def qemu_pid() -> int:
    return int(MachineFiles.of("m").read_state()["qemu_pid"])


def test_no_orphan_after_sigkill_of_the_supervisor(supervisor: subprocess.Popen[bytes]) -> None:
    pid = qemu_pid()
    assert process_is_there(pid)
    supervisor.kill()
    supervisor.wait()
    eventually(lambda: not process_is_there(pid))
    status = status_from_files(MachineFiles.of("m"))
    assert status["state"] == MachineState.CUT and status["supervisor_pid"] is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_orphan_after_ctrl_c(supervisor: subprocess.Popen[bytes], number: int) -> None:
    pid = qemu_pid()
    supervisor.send_signal(number)
    assert supervisor.wait(LIMIT_S) == Exit.PASS
    assert not process_is_there(pid)
    files = MachineFiles.of("m")
    assert status_from_files(files)["state"] == MachineState.STOPPED  # it had a hold-up
    assert not files.control.exists()
    assert MachineLock.owner_pid(files) is None


def test_supervisor_cuts_and_resumes_on_request(supervisor: subprocess.Popen[bytes]) -> None:
    files = MachineFiles.of("m")
    pid = qemu_pid()
    record = request(files, "cut", hold_up_ns=HOLD_UP_NS)
    assert record["stopped"] and record["qemu_pid"] == pid and not process_is_there(pid)
    assert request(files, "status")["state"] == "stopped"
    with pytest.raises(RemError, match="not running") as caught:
        request(files, "cut")
    assert caught.value.exit_code == Exit.USAGE
    assert request(files, "resume")["qemu_pid"] != pid
    with pytest.raises(RemError, match="no operation"):
        request(files, "explode")
    assert supervisor.poll() is None


def test_clients_that_talk_nonsense_do_no_harm(supervisor: subprocess.Popen[bytes]) -> None:
    from lab.machine.control import short_path

    files = MachineFiles.of("m")
    for nonsense in (b"", b"\n", b"[]\n", b"{", b"\xff" * 100 + b"\n", b'{"op": ["cut"]}\n'):
        with socket.socket(socket.AF_UNIX) as sock, short_path(files) as path:
            sock.connect(path)
            sock.sendall(nonsense)
    assert request(files, "status")["state"] == "running"
    assert supervisor.poll() is None


FOREGROUND = """
import sys
from pathlib import Path
from lab.machine import Machine, MachineConfig
from lab.machine.attach import run_in_foreground
config = MachineConfig(name="m", kernel=Path(sys.argv[1]), network="none", cpus=1)
sys.exit(run_in_foreground(Machine.create(config)))
"""


def test_terminal_is_the_console_until_the_escape_key(config: MachineConfig) -> None:
    leader, follower = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", FOREGROUND, str(config.kernel)],
        cwd=repo_dir(), stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    seen = b""
    while b"R" not in seen:
        seen += os.read(leader, 100)
    pid = qemu_pid()
    os.write(leader, b"s")  # the guest answers
    while b"D" not in seen:
        seen += os.read(leader, 100)
    os.write(leader, b"\x03")  # Ctrl-C is for the guest
    assert process_is_there(pid) and child.poll() is None
    os.write(leader, b"\x1d")
    assert child.wait(LIMIT_S) == Exit.PASS
    os.close(leader)
    assert not process_is_there(pid)
    Machine.open("m").destroy()


def test_console_is_shared_and_its_end_is_reported(machine: Machine) -> None:
    got: list[bytes] = []
    ended = threading.Event()

    def sink(data: bytes) -> None:
        got.append(data)
        if not data:
            ended.set()

    assert machine.console is not None
    machine.console.attach(sink, replay=True)
    machine.cut(UNANNOUNCED)
    assert ended.wait(LIMIT_S)
    assert b"R" in b"".join(got)


def test_machine_left_by_a_killed_command_makes_room(config: MachineConfig) -> None:
    """Only a machine that was to end with its command, and only after that command ended."""
    maker = "import sys; from lab.machine import *; c = MachineConfig.from_json(sys.argv[1]);"
    maker += "Machine.create(c, destroy_on_exit=sys.argv[2] == 'transient').close()"

    def leave(kind: str) -> None:
        argv = [sys.executable, "-c", maker, config.to_json(), kind]
        subprocess.run(argv, check=True, cwd=repo_dir())

    leave("transient")
    with Machine.create(config) as machine:
        assert not machine.files.transient.exists()
    with pytest.raises(RemError, match="there is a machine"):
        Machine.create(config)
    Machine.open(config.name).destroy()
    leave("transient")
    with Machine.open(config.name), pytest.raises(RemError, match="there is a machine"):
        Machine.create(config)
    leave("transient")
    Machine.open(config.name).destroy()
