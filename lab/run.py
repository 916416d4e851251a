# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every process that `rem` starts is started here.

`run` waits and returns the output; `stream` waits and writes to a log, passing each line on;
`spawn` returns at once (QEMU, load generators): the caller owns the process and must end it. All
put the child into a process group of its own, so that ending it ends what it started, and none
leaves a child behind on Ctrl-C.

Programs are found in PATH. In a process that has called set-up, PATH has only what the lists of
packages name (lab/setup/tools.py).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from lab.errors import HangError, InfraError
from lab.progress import waiting

END_GRACE_S = 5.0  # between SIGTERM and SIGKILL
# Where several jobs run at once, the cause of an error is long above the last lines.
CAUSE = re.compile(r"\b(?:error|fatal):|^E: |\bERROR\b|\*\*\* .*(?:Error|Stop)", re.IGNORECASE)
CAUSES_MAX = 5
TAIL_LINES = 15  # of a failed program's output, printed with the error
REPORT_S = 60.0  # for a program that is ended because it took too long

HOST_PATH_ENV = "REM_HOST_PATH"  # PATH as it was before lab/setup/tools.py replaced it
ROOT_PLACES = ":/usr/local/sbin:/usr/sbin:/sbin"  # an ordinary user's PATH may lack them

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
    """The program in PATH; where that is the user's, also in the places of root's."""
    path = os.environ.get("PATH", "")
    if HOST_PATH_ENV not in os.environ:
        path += ROOT_PLACES
    found = shutil.which(name, path=path)
    return Path(found) if found else None


def host_path() -> str:
    """The user's PATH, and the places of root's."""
    return os.environ.get(HOST_PATH_ENV, os.environ.get("PATH", "")) + ROOT_PLACES


class Children:
    """Processes of one piece of work that several threads share; they can be ended at once."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may come while its thread has it
        self._living: list[subprocess.Popen[str]] = []
        self._ended = False

    def add(self, child: subprocess.Popen[str]) -> None:
        with self._lock:
            self._living = [c for c in self._living if c.poll() is None]
            self._living.append(child)
            ended = self._ended
        if ended:
            _signal_group(child.pid, signal.SIGTERM)

    def end(self) -> None:
        """End those that run, and any that is started later. Their owners wait for them."""
        with self._lock:
            self._ended = True
            living = [c for c in self._living if c.poll() is None]
        for child in living:
            _signal_group(child.pid, signal.SIGTERM)


_children: ContextVar[Children | None] = ContextVar("children", default=None)
# What threads have started that Ctrl-C does not reach: only the main one is interrupted.
_of_threads = Children()


def is_beside() -> bool:
    """Whether this is not the main thread."""
    return threading.current_thread() is not threading.main_thread()


def end_threads_on_ctrl_c() -> None:
    """From now on Ctrl-C also ends what other threads have started, so that these end, too.

    The main thread usually waits for them. A second Ctrl-C ends this process at once. Where Ctrl-C
    is ignored, as in what a shell runs in the background, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _of_threads.end()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupted)


@contextmanager
def owned_by(children: Children | None) -> Iterator[None]:
    """Within, what this thread starts is one of *children*."""
    token = _children.set(children)
    try:
        yield
    finally:
        _children.reset(token)


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
        with waiting(what or Path(argv[0]).name):
            out, err = child.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        assert child is not None
        end(child)
        raise HangError(
            f"{what or argv[0]}: did not end within {timeout_s:g} s: {quoted(argv)}"
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
    """Run to the end; stdout and stderr go to `log` (appended), each line also to `on_line`.

    After *timeout_s* Ctrl-C's signal tells it so: it may say what it knows, within REPORT_S.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8", errors="replace") as out:
        out.write(f"$ {quoted(argv)}\n")
        out.flush()
        child: subprocess.Popen[str] | None = None
        watch: threading.Timer | None = None
        causes: list[str] = []
        tail: list[str] = []
        overdue = threading.Event()

        def stop(late: subprocess.Popen[str]) -> None:
            overdue.set()
            late.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                late.wait(REPORT_S)
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
            shown = waiting(what or Path(argv[0]).name) if on_line is None else nullcontext()
            with shown:
                for line in child.stdout:
                    out.write(line)
                    out.flush()  # someone may be watching the log
                    tail = [*tail[1 - TAIL_LINES :], line]
                    if len(causes) < CAUSES_MAX and CAUSE.search(line):
                        causes.append(line)
                    if on_line is not None:
                        on_line(line.rstrip("\n"))
                child.wait()
        finally:
            if watch is not None:
                watch.cancel()
            if child is not None:
                end(child)
    if overdue.is_set():
        raise HangError(f"{what or argv[0]}: did not end within {timeout_s:g} s; its output: {log}")
    if check and child.returncode != 0:
        above = [line for line in causes if line not in tail]
        error = _failed(tuple(map(str, argv)), child.returncode, "".join([*above, *tail]), what)
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
    beside: bool | None = None,
) -> subprocess.Popen[str]:
    """Start and return at once; the caller ends it (`end`).

    *beside*: whether it is for another thread than the main one, if that does not call this.
    """
    words = [str(word) for word in argv]
    tool = words[0] if "/" in words[0] else find_tool(words[0])
    if tool is None:
        raise _no_tool(words[0])
    try:
        child = subprocess.Popen(
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
    children = _children.get()
    if children is not None:
        children.add(child)
    if is_beside() if beside is None else beside:
        _of_threads.add(child)
    return child


def _no_tool(name: str) -> InfraError:
    if HOST_PATH_ENV in os.environ and shutil.which(name, path=host_path()):
        return InfraError(
            f"{name} is on this machine, but in no group of packages that this step names: "
            "add its package to lab/setup/packages.py"
        )
    return InfraError(f"{name} is not installed: run `./rem doctor` to see what is missing")


def replace_by(argv: Args) -> NoReturn:
    """Become that program: terminal, signals and exit code are then between it and our caller."""
    words = [str(word) for word in argv]
    tool = words[0] if "/" in words[0] else find_tool(words[0])
    if tool is None:
        raise InfraError(f"{words[0]} is not installed: run `./rem doctor` to see what is missing")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(tool, words)


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Delay Ctrl-C until the end of the block, when the child that was just started is known.

    Python starts a child and returns it in two steps; an interrupt between them would leave the
    child behind.
    """
    before = signal.getsignal(signal.SIGINT)
    if is_beside() or not callable(before):
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
    lines = output.strip().splitlines()[-TAIL_LINES - CAUSES_MAX :]
    tail = "\n".join("  " + line for line in lines)
    message = f"{what or argv[0]} failed ({how}): {quoted(argv)}"
    return InfraError(message + ("\n" + tail if tail else ""))
