# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every process that `rem` starts is started here.

`run` waits and returns the output; `stream` waits and writes to a log, passing each line on;
`spawn` returns at once (QEMU, load generators): the caller owns the process and must end it. All
put the child into a process group of its own, so that ending it ends what it started, and none
leaves a child behind on Ctrl-C.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any

from lab.errors import HangError, InfraError

END_GRACE_S = 5.0  # between SIGTERM and SIGKILL
TAIL_LINES = 15  # of a failed program's output, printed with the error

Args = Sequence[str | Path]


@dataclass(frozen=True)
class Done:
    """A process that ended."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        return self.returncode == 0


def quoted(argv: Args) -> str:
    """The command, quoted for a shell."""
    return shlex.join(str(word) for word in argv)


def find_tool(name: str) -> Path | None:
    """The program in PATH or the places where only root's PATH looks."""
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    found = shutil.which(name, path=path)
    return Path(found) if found else None


def run(
    argv: Args,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout_s: float | None = None,
    check: bool = True,
    what: str = "",
) -> Done:
    """Run to the end and return the output. `check`: a failure ends the command with one line.

    `env` is added to the caller's environment; `what` names the step in errors.
    """
    child = None
    try:
        with _ctrl_c_waits():
            child = spawn(
                argv,
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        out, err = child.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        assert child is not None
        end(child)
        raise HangError(
            f"{what or argv[0]}: no end after {timeout_s:g} s: {quoted(argv)}"
        ) from None
    except BaseException:
        if child is not None:
            end(child)
        raise
    done = Done(tuple(map(str, argv)), child.returncode, out, err)
    if check and not done.ok:
        raise _failed(done.argv, done.returncode, err or out, what)
    return done


def stream(
    argv: Args,
    *,
    log: Path,
    on_line: Callable[[str], None] | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    check: bool = True,
    what: str = "",
) -> int:
    """Run to the end; stdout and stderr go to `log` (appended), each line also to `on_line`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8", errors="replace") as out:
        out.write(f"$ {quoted(argv)}\n")
        out.flush()
        child: subprocess.Popen[str] | None = None
        watch: threading.Timer | None = None
        tail: list[str] = []
        overdue = threading.Event()

        def stop(late: subprocess.Popen[str]) -> None:
            overdue.set()
            _kill(late)

        try:
            with _ctrl_c_waits():
                child = spawn(
                    argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            if timeout_s is not None:
                watch = threading.Timer(timeout_s, stop, [child])
                watch.start()
            assert child.stdout is not None
            for line in child.stdout:
                out.write(line)
                out.flush()  # someone may be watching the log
                tail = [*tail[1 - TAIL_LINES :], line]
                if on_line is not None:
                    on_line(line.rstrip("\n"))
            child.wait()
        finally:
            if watch is not None:
                watch.cancel()
            if child is not None:
                end(child)
    if overdue.is_set():
        raise HangError(f"{what or argv[0]}: no end after {timeout_s:g} s; its output: {log}")
    if check and child.returncode != 0:
        error = _failed(tuple(map(str, argv)), child.returncode, "".join(tail), what)
        raise InfraError(f"{error.message}\n  whole output: {log}")
    return child.returncode


def spawn(
    argv: Args,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[str]:
    """Start and return at once; the caller ends it (`end`)."""
    words = [str(word) for word in argv]
    tool = words[0] if "/" in words[0] else find_tool(words[0])
    if tool is None:
        raise InfraError(f"{words[0]} is not installed: run `./rem doctor` to see what is missing")
    try:
        return subprocess.Popen(
            words,
            executable=str(tool),
            cwd=cwd,
            env={**os.environ, **env} if env is not None else None,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except OSError as error:
        raise InfraError(f"cannot start {tool}: {error.strerror}") from error


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, when the child that was just started is known.

    Python starts a child and returns it in two steps; an interrupt between them would leave the
    child behind.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    kept: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: kept.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if kept:
            before(*kept[0])


def end(child: subprocess.Popen[str], grace_s: float = END_GRACE_S) -> None:
    """End the process and its group, if it has not ended: SIGTERM, wait, then SIGKILL."""
    if child.poll() is None:
        _signal_group(child.pid, signal.SIGTERM)
        try:
            child.wait(grace_s)
        except subprocess.TimeoutExpired:
            _kill(child)
            child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _kill(child: subprocess.Popen[str]) -> None:
    _signal_group(child.pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _failed(argv: tuple[str, ...], returncode: int, output: str, what: str) -> InfraError:
    how = f"signal {-returncode}" if returncode < 0 else f"exit {returncode}"
    tail = "\n".join("  " + line for line in output.strip().splitlines()[-TAIL_LINES:])
    message = f"{what or argv[0]} failed ({how}): {quoted(argv)}"
    return InfraError(message + ("\n" + tail if tail else ""))
