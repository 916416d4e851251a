# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command line: errors are one line and a code, no process is left, the man page is true."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import cli, run
from lab.checks.testrun import TestRun, Tier, pytest_last_line
from lab.command_line.man_page import man_page
from lab.errors import Exit, HangError, InfraError, RemError
from lab.paths import repo_dir
from lab.result import Result
from lab.testbed.waiting import wait_until


def test_usage_errors_are_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--bogus"], ["no-such-command"], ["setup", "--only", "nonsense"]):
        assert cli.main(argv) == Exit.USAGE
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("rem: ")
        assert err.count("\n") == 1


def test_error_of_a_command_becomes_its_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in (Exit.BROKEN, Exit.HANG, Exit.INFRASTRUCTURE):

        def fail(code: Exit = code) -> None:
            raise RemError("the kettle is empty: fill it", code)

        monkeypatch.setattr("lab.setup.status.rows", fail)
        assert cli.main(["doctor"]) == code
        assert capsys.readouterr().err == "rem: the kettle is empty: fill it\n"
        with pytest.raises(RemError):
            cli.main(["--debug", "doctor"])


def test_full_disk_anywhere_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some/file")

    monkeypatch.setattr("lab.setup.status.rows", fail)
    assert cli.main(["doctor"]) == Exit.INFRASTRUCTURE
    assert capsys.readouterr().err.startswith("rem: No space left on device: some/file")


def test_every_command_has_help_and_imports_only_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in cli.LazyCommands():
        assert cli.main([name, "--help"]) == Exit.PASS
        assert "Usage:" in capsys.readouterr().out
    code = "import sys; from lab import cli; cli.parser().commands['setup']; print(*sys.modules)"
    argv = [sys.executable, "-c", code]
    loaded = subprocess.run(argv, cwd=repo_dir(), capture_output=True, text=True, check=True).stdout
    assert "lab.commands.setup" in loaded.split()
    assert {"lab.commands.doctor", "rich.table", "matplotlib"}.isdisjoint(loaded.split())


def test_man_page_is_that_of_the_parser() -> None:
    written = (repo_dir() / "man" / "rem.1").read_text(encoding="utf-8")
    assert written == man_page(cli.parser()), "man/rem.1 is old: run `./rem fmt`"


def test_result_is_one_json_line_with_units(capsys: pytest.CaptureFixture[str]) -> None:
    result = Result("demo")
    result.add("lost_writes", 0, "1", "counted")
    result.emit()
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {
        "name": "demo",
        "ok": True,
        "missed": [],
        "figures": {"lost_writes": {"value": 0, "unit": "1", "kind": "counted"}},
    }
    with pytest.raises(AssertionError):
        result.add("lost_writes", 1, "1", "counted")


def test_missing_tool_points_to_doctor() -> None:
    with pytest.raises(InfraError, match="no-such-tool is not installed: run `./rem doctor`"):
        run.run(["no-such-tool"])


def test_failure_names_step_command_and_last_words() -> None:
    with pytest.raises(InfraError) as error:
        run.run(["sh", "-c", "echo last words >&2; exit 3"], what="a step")
    assert error.value.message.startswith("a step failed (exit 3): sh -c")
    assert error.value.message.endswith("last words")


def test_a_failure_shows_the_cause_above_the_last_lines(tmp_path: Path) -> None:
    """Of several jobs that run at once one fails, and the others print on."""
    script = "echo 'a.c:1: fatal error: b.h: No such file'; seq 1 100; exit 2"
    with pytest.raises(InfraError) as error:
        run.stream(["sh", "-c", script], log=tmp_path / "log")
    lines = error.value.message.splitlines()
    assert lines[1] == "  a.c:1: fatal error: b.h: No such file"
    assert lines[2:-1] == [f"  {n}" for n in range(101 - run.TAIL_LINES, 101)]


def test_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 1000 & echo $! >{pid_file}; wait"
    for bounded in (
        lambda: run.run(["sh", "-c", script], timeout_s=0.5),
        lambda: run.stream(["sh", "-c", script], log=tmp_path / "log", timeout_s=0.5),
    ):
        with pytest.raises(HangError):
            bounded()
        assert _is_gone(int(pid_file.read_text()))


def test_who_is_late_may_say_what_it_knows(tmp_path: Path) -> None:
    script = "trap 'echo it did this; exit' INT; while :; do sleep 0.1; done"
    lines: list[str] = []
    with pytest.raises(HangError):
        run.stream(
            ["bash", "-c", script], log=tmp_path / "log", on_line=lines.append, timeout_s=10.0
        )
    assert lines == ["it did this"]


def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; sleep 1000"
    # If a shell starts this test in the background, it ignores Ctrl-C, and so would the child.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listen}; from lab import run; run.run(['sh', '-c', {script!r}])"
    child = subprocess.Popen([sys.executable, "-c", code], cwd=repo_dir(), stderr=subprocess.PIPE)
    for _ in range(1200):  # as long as a busy host may take to start two programs
        if pid_file.exists():
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode != 0
    assert _is_gone(int(pid_file.read_text()))


BESIDE = """
import signal, sys
from concurrent.futures import ThreadPoolExecutor
from lab import run
from lab.machine.offspring import spawn_bound
signal.signal(signal.SIGINT, signal.default_int_handler)
run.end_threads_on_ctrl_c()
def work(n):
    pid_file = f"{sys.argv[1]}/{n}"
    words = ["sh", "-c", f"echo $$ >{pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"]
    (spawn_bound(words) if n else run.spawn(words)).wait()
with ThreadPoolExecutor(2) as pool:
    list(pool.map(work, range(6)))
"""


def test_ctrl_c_ends_what_threads_have_started(tmp_path: Path) -> None:
    """Those that wait for their turn may begin meanwhile, and end at once."""
    child = subprocess.Popen([sys.executable, "-c", BESIDE, tmp_path], cwd=repo_dir())
    wait_until(lambda: len(list(tmp_path.glob("[01]"))) == 2, "two jobs run", limit_s=60)
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=60) != 0
    started = list(tmp_path.glob("[0-9]"))
    assert 2 <= len(started) < 6
    assert all(_is_gone(int(path.read_text())) for path in started)


def test_stream_writes_log_and_hands_lines_on(tmp_path: Path) -> None:
    lines: list[str] = []
    log = tmp_path / "deep" / "log"
    assert run.stream(["sh", "-c", "echo one; echo two >&2"], log=log, on_line=lines.append) == 0
    assert lines == ["one", "two"]
    assert log.read_text().splitlines()[1:] == lines
    with pytest.raises(InfraError, match="whole output"):
        run.stream(["false"], log=log)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("======= 57 passed in 3.21s =======", "57 passed in 3.21s"),
        ("1 failed, 56 passed, 2 skipped in 63.05s (0:01:03)",) * 2,
        ("\x1b[32m= \x1b[1m5 passed\x1b[0m, 2 deselected in 0.10s =\x1b[0m",)
        + ("5 passed, 2 deselected in 0.10s",),
        ("tests/unit/test_x.py .....", ""),
    ],
)
def test_last_line_of_pytest_is_recognised(line: str, found: str) -> None:
    assert pytest_last_line(line) == found


def test_budget_is_a_failure_of_its_own_except_in_soak() -> None:
    done = TestRun(Tier.FULL)
    assert done.exit_code() == Exit.PASS
    done.failed.append("pytest")
    assert done.exit_code() == Exit.BROKEN
    done.began -= 81 * 60
    assert done.exit_code() == Exit.HANG
    done.tier = Tier.SOAK
    assert done.exit_code() == Exit.BROKEN
    assert done.left_s() is None


def _is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        # A zombie has ended as well.
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False
