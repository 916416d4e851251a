# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: commands of `rem` reach the guest, and the options of `rem run` hold after a resume, after
a change of the process that owns the machine, and after a cold boot.

Method: one machine with a shared folder, persistent memory and a store of texts; `rem` as processes
with pipes, files and a terminal. Tests come in the order of the machine's life.
"""

from __future__ import annotations

import hashlib
import os
import pty
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.errors import Exit
from lab.machine.files import MachineFiles, MachineLock
from tests.support.command_line import LIMIT_S, Cli, running_machine

BLOB_BYTES = 3 << 20
TICKS = 60

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shared")
    (made / "hello").write_text("from the host\n", encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def rem(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Cli]:
    words = ["--caches", "off", "--cpus", "2", "--disk-size", "5G"]
    words += ["--share", str(folder), "--pm", "64M", "--off2f", "--off2f-size", "64M"]
    with running_machine(tmp_path_factory.mktemp("state"), "guest", *words) as cli:
        yield cli


def wait_for(what: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < end_s
        time.sleep(0.1)


def test_input_output_and_exit_codes_are_passed_on(rem: Cli) -> None:
    blob = random.Random(1).randbytes(BLOB_BYTES)
    there = rem.well("ssh", "sha256sum", input=blob, text=False).stdout.split()[0]
    assert there.decode() == hashlib.sha256(blob).hexdigest()
    assert rem.well("ssh", "cat", input=blob, text=False).stdout == blob
    assert rem.well("ssh", input="echo from a script\n").stdout == "from a script\n"
    failed = rem("ssh", "echo out; echo err >&2; exit 7")
    assert (failed.returncode, failed.stdout, failed.stderr) == (7, "out\n", "err\n")
    assert rem("ssh", "sh -c 'kill -9 $$'").returncode == 128 + signal.SIGKILL
    assert rem.well("ssh", "ls", "-t", "/host").stdout == "hello\n"  # an option of the command


def in_terminal(rem: Cli, *command: str, typed: bytes, rows: int, columns: int) -> tuple[int, str]:
    """Run `rem ssh` in a terminal of that size; type *typed* once it is ready."""
    pid, fd = pty.fork()
    if pid == 0:
        words = rem.words("ssh", *command)
        os.execve(words[0], words, rem.env)
    out = b""
    try:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        while data := os.read(fd, 4096):
            out += data
            if b"ready" in out and typed:
                os.write(fd, typed)
                typed = b""
    except OSError:
        pass  # the end of a terminal
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return os.waitstatus_to_exitcode(status), out.decode()


def test_command_has_a_terminal_if_rem_has_one(rem: Cli) -> None:
    handler = "trap 'echo interrupted; exit 5' INT"
    script = f"tty; stty size; {handler}; echo ready; while :; do :; done"
    code, out = in_terminal(rem, script, typed=b"\x03", rows=31, columns=97)
    assert re.search(r"/dev/pts/\d+\r\n31 97\r\n", out)
    assert "interrupted" in out
    assert code == 5
    assert "not a tty" in rem("ssh", "tty").stdout


def test_copies_arrive_both_ways(rem: Cli, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "data").write_bytes(random.Random(2).randbytes(BLOB_BYTES))
    (source / "sub" / "data").chmod(0o640)
    (source / "link").symlink_to("sub/data")
    os.utime(source / "sub" / "data", ns=(10**18, 10**18 + 123_456_789))
    rem.well("cp", str(source), ":/srv")
    shown = rem.guest(
        "cd /srv/source && stat -c '%a %U %.9Y' sub/data && readlink link; ls -A /srv"
    )
    assert shown == "640 root 1000000000.123456789\nsub/data\nsource\n"
    rem.well("cp", ":/srv/source", str(tmp_path / "back"))
    back = tmp_path / "back" / "sub" / "data"
    assert back.read_bytes() == (source / "sub" / "data").read_bytes()
    assert back.stat().st_mtime_ns == 10**18 + 123_456_789
    assert os.readlink(tmp_path / "back" / "link") == "sub/data"


def test_copy_of_a_device_or_a_link_outside_is_refused(rem: Cli, tmp_path: Path) -> None:
    rem.guest(
        "mkdir -p /srv/bad && mknod /srv/bad/disk b 8 0 && mkdir /srv/out && ln -s /etc /srv/out/l"
    )
    for path, words in (("bad", "a block device"), ("out", "outside of what is copied")):
        done = rem("cp", f":/srv/{path}", str(tmp_path))
        assert done.returncode == Exit.BROKEN
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert list(tmp_path.iterdir()) == []


def test_disk_has_the_requested_size(rem: Cli) -> None:
    assert 4_500 < int(rem.guest("df -BM --output=size / | tail -1").strip().rstrip("M")) < 5_200


def test_host_and_guest_share_the_folder(rem: Cli, folder: Path) -> None:
    assert rem.guest("cat /host/hello") == "from the host\n"
    rem.guest("echo from the guest >/host/reply && mkdir /host/made")
    assert (folder / "reply").read_text(encoding="utf-8") == "from the guest\n"
    (folder / "made" / "new").touch()
    assert rem.guest("ls /host/made") == "new\n"
    assert rem("ssh", "mknod /host/null c 1 3").returncode != 0
    assert rem("ssh", "cp /bin/true /host/true && chmod u+s /host/true").returncode != 0
    assert (folder / "true").stat().st_mode & 0o7000 == 0


def test_regions_are_ready_for_use(rem: Cli) -> None:
    rem.guest("pmadmin create box 1M && echo kept >/dev/pm/box && sync /dev/pm/box")
    rem.guest("off2f install /bin/true --to /root/true --store /nvm/store && /root/true && sync")
    assert '"source":"pm="' in rem.guest("pmadmin --json status").replace(" ", "")
    rem.guest("python3 -c 'import pm; pm.Service()'")


def test_everything_continues_after_a_cut(rem: Cli, folder: Path) -> None:
    """A command over its connection, a file that is open in the shared folder, the regions."""
    script = (
        f"exec 3>/host/ticks; for i in $(seq {TICKS}); do echo $i; echo $i >&3; sleep 0.2; done"
    )
    child = subprocess.Popen(
        rem.words("ssh", script),
        env=rem.env,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: (folder / "ticks").exists() and (folder / "ticks").stat().st_size > 0)
    rem.well("cut")
    assert (folder / "ticks").read_text(encoding="utf-8").count("\n") < TICKS
    rem.well("resume")
    out, _ = child.communicate(timeout=LIMIT_S)
    expected = "".join(f"{number}\n" for number in range(1, TICKS + 1))
    assert (child.returncode, out) == (0, expected)
    assert (folder / "ticks").read_text(encoding="utf-8") == expected
    assert (
        rem.guest("head -c 5 /dev/pm/box; cat /host/hello; /root/true") == "kept\nfrom the host\n"
    )


def test_new_owner_mounts_the_folder_again(rem: Cli) -> None:
    """Its server is another process: the connection is lost, the folder is not."""
    writer = "while echo tick; do sleep 0.1; done >/host/held; echo ended >/root/ended"
    rem.guest(f"({writer}) >/dev/null 2>&1 & until [ -s /host/held ]; do sleep 0.1; done")
    files = MachineFiles(rem.state / "machines" / rem.name)
    owner = MachineLock.owner_pid(files)
    assert owner is not None
    os.kill(owner, signal.SIGTERM)
    wait_for(lambda: MachineLock.owner_pid(files) is None)
    rem.well("resume", "-d")
    assert rem.guest("cat /host/hello; /root/true") == "from the host\n"
    rem.guest("until [ -e /root/ended ]; do sleep 0.1; done")  # its file reported an error


def test_options_hold_after_a_cold_boot(rem: Cli) -> None:
    rem.well("cut", "--immediate")
    assert rem("resume").returncode == Exit.BROKEN  # without a Stop there is no image
    assert (
        rem.guest("head -c 5 /dev/pm/box; cat /host/hello; /root/true") == "kept\nfrom the host\n"
    )
