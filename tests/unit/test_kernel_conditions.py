# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Conditions of the supply's health, which user space reports to the kernel: what is bad stays bad
until it is reported as ok, what is ok gets silent after its period, and what is no report changes
nothing, whatever bytes it has.

Method: conditions.c of kernel/stop/, compiled for the host, beside a model of a few lines. Negative
proofs: the same checks on a copy of conditions.c with one line changed are red.
"""

from __future__ import annotations

import ctypes
import errno
import random
import re
import string
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.paths import repo_dir
from tests.support.decisions import compiled

STOP = repo_dir() / "kernel" / "stop"
HEADER = (STOP / "conditions.h").read_text("utf-8")
NOW_S = 1000
DAY_S = 86400


def constant(name: str) -> int:
    found = re.search(rf"#define {name} (\d+)", HEADER)
    assert found, name
    return int(found[1])


MAX = constant("REM_CONDITIONS_MAX")
NAME_BYTES = constant("REM_CONDITION_NAME_BYTES")
TEXT_BYTES = constant("REM_CONDITION_TEXT_BYTES")


class Condition(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("name", ctypes.c_char * NAME_BYTES),
        ("text", ctypes.c_char * TEXT_BYTES),
        ("period_s", ctypes.c_ulonglong),
        ("since_s", ctypes.c_ulonglong),
    ]


class Conditions(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("count", ctypes.c_uint),
        ("list", Condition * MAX),
        ("guard", Condition * 2),  # behind the kernel's structure
    ]


class Kernel:
    """The conditions of one kernel, and its clock."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library, self.all, self.now_s = library, Conditions(), NOW_S

    def report(self, line: bytes | str) -> int:
        line = line.encode() if isinstance(line, str) else line
        all_ = ctypes.byref(self.all)
        return int(self.library.rem_conditions_report(all_, line, ctypes.c_ulonglong(self.now_s)))

    def bad(self) -> list[str]:
        """The first bad one's name and text, as often as there are bad ones."""
        first = ctypes.POINTER(Condition)()
        count = self.library.rem_conditions_bad(
            ctypes.byref(self.all), ctypes.c_ulonglong(self.now_s), ctypes.byref(first)
        )
        assert bool(first) == bool(count)
        return [f"{first[0].name.decode()}: {first[0].text.decode()}"] * count if count else []

    def wait_s(self) -> int:
        self.library.rem_conditions_wait_s.restype = ctypes.c_ulonglong
        now_s = ctypes.c_ulonglong(self.now_s)
        return int(self.library.rem_conditions_wait_s(ctypes.byref(self.all), now_s))

    @property
    def names(self) -> list[str]:
        return [one.name.decode() for one in self.all.list[: self.all.count]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("conditions"), "stop", "conditions")


@pytest.fixture
def kernel(library: ctypes.CDLL) -> Kernel:
    return Kernel(library)


def check_bad_until_taken_back(kernel: Kernel) -> None:
    assert kernel.report("psu 300 bad one of two has no input\n") == 1
    assert kernel.report("psu 300 bad one of two has no input\n") == 0, "nothing is new"
    kernel.now_s += 100 * DAY_S
    assert kernel.bad() == ["psu: one of two has no input"]
    assert kernel.report("psu 300 ok\n") == 1
    assert kernel.bad() == []


def check_silence_is_bad(kernel: Kernel) -> None:
    kernel.report("psu 300 ok")
    assert kernel.wait_s() == 301
    kernel.now_s += 300
    assert kernel.bad() == [] and kernel.wait_s() == 1
    kernel.now_s += 1
    assert kernel.bad() == ["psu: "] and kernel.wait_s() == 0
    assert kernel.report("psu 300 ok") == 1
    assert kernel.bad() == [] and kernel.wait_s() == 301


def check_each_stands_for_itself(kernel: Kernel) -> None:
    for name in ("a", "b", "c"):
        kernel.report(f"{name} 0 bad it is {name}")
    kernel.report("a 0 ok")
    assert (kernel.bad(), kernel.names) == (["b: it is b"] * 2, ["b", "c"])
    kernel.report("c 0 ok")
    kernel.report("b 60 bad it is worse")
    assert kernel.bad() == ["b: it is worse"]
    kernel.report("b 0 ok")
    assert (kernel.bad(), kernel.all.count) == ([], 0)


def check_there_are_no_more_than_fit(kernel: Kernel) -> None:
    for number in range(MAX):
        assert kernel.report(f"n{number} 0 bad it is") == 1
    assert kernel.report("more 0 bad it is") == -errno.ENOSPC
    assert kernel.report("n3 0 bad another") == 1, "one that is there is no more"
    assert kernel.report("n5 0 ok") == 1
    assert kernel.report("more 0 bad it is") == 1
    assert len(kernel.bad()) == kernel.all.count == MAX
    assert not any(bytes(kernel.all.guard))


CHECKS = (
    check_bad_until_taken_back,
    check_silence_is_bad,
    check_each_stands_for_itself,
    check_there_are_no_more_than_fit,
)


@pytest.mark.parametrize("check", CHECKS)
def test_rule_holds(kernel: Kernel, check: Callable[[Kernel], None]) -> None:
    check(kernel)


@pytest.mark.parametrize(
    ("line", "spoilt", "check"),
    [
        # What is bad ends with its period, too.
        (
            "if (!one->text[0] && !rem_condition_silent(one, now_s))",
            "if (!one->text[0] || now_s > one->since_s + one->period_s)",
            check_bad_until_taken_back,
        ),
        ("now_s > one->since_s + one->period_s", "false", check_silence_is_bad),
        ("memmove(one, one + 1,", "memmove(one, one,", check_each_stands_for_itself),
        ("!one && all->count == REM_CONDITIONS_MAX", "false", check_there_are_no_more_than_fit),
    ],
)
def test_spoilt_rule_is_found(
    tmp_path: Path, line: str, spoilt: str, check: Callable[[Kernel], None]
) -> None:
    """The negative proofs. Without its limit the table's last one is in the guard."""
    text = (STOP / "conditions.c").read_text("utf-8")
    assert text.count(line) == 1
    (tmp_path / "conditions.c").write_text(text.replace(line, spoilt), "utf-8")
    (tmp_path / "conditions.h").write_text(HEADER, "utf-8")
    out = tmp_path / "spoilt.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", out, tmp_path / "conditions.c"], check=True)
    with pytest.raises(AssertionError):
        check(Kernel(ctypes.CDLL(str(out))))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        "psu",
        "psu 300",
        "psu 300 good",
        "psu 300 bad",
        "psu 300 bad \n",
        "psu ok",
        "psu -1 ok",
        "psu 1s ok",
        "psu  300 ok",
        " psu 300 ok",
        "-psu 300 ok",
        "p/u 300 ok",
        f"psu {DAY_S + 1} ok",
        "psu 18446744073709551616 ok",
        "psu 300 ok well",
        "psu 300 ok\nbattery 300 bad it is empty\n",  # one of them would be lost
        "psu 300 bad it is\nbattery 300 bad it is empty\n",
        f"{'n' * NAME_BYTES} 300 ok",
        "ps\xfc 300 ok",
    ],
)
def test_what_is_no_report_changes_nothing(kernel: Kernel, line: str) -> None:
    kernel.report("psu 60 bad it is")
    before = bytes(kernel.all)
    assert kernel.report(line.encode("latin-1")) == -errno.EINVAL
    assert bytes(kernel.all) == before


def test_a_text_that_is_long_or_strange_is_bad_all_the_same(kernel: Kernel) -> None:
    """It is the text of the device's maker; a name is the reporter's."""
    assert kernel.report(b"psu 0 bad " + b"x" * 4000 + b"\n") == 1
    assert kernel.bad() == ["psu: " + "x" * (TEXT_BYTES - 1)]
    assert kernel.report(b"psu 0 bad a\tb\xfc\x1b[31m") == 1
    assert kernel.bad() == ["psu: a?b??[31m"]
    assert kernel.report(f"{'n' * (NAME_BYTES - 1)} {DAY_S} ok") == 1


def test_remctl_has_the_limits_of_the_kernel() -> None:
    """Its reasons are not cut in the kernel: it would hold each pass for a change."""
    remctl = (repo_dir() / "remctl" / "src" / "health.rs").read_text("utf-8")
    assert f"const TEXT_BYTES: usize = {TEXT_BYTES - 1};" in remctl


def test_any_reports_are_as_in_the_model(library: ctypes.CDLL) -> None:
    """Some thousand reports, with bytes changed, and time that passes."""
    rng = random.Random(19)
    kernel, model = Kernel(library), dict[str, tuple[str, int, int]]()
    for _ in range(20_000):
        kernel.now_s += rng.choice((0, 0, 1, 7, 400))
        name, period_s = rng.choice(string.ascii_lowercase), rng.choice((0, 5, 300))
        text = rng.choice(("", "", "it is", "it is not"))
        line = f"{name} {period_s} {'bad ' + text if text else 'ok'}".encode()
        if rng.random() < 0.3:
            spoilt = bytearray(line)
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(1, 256)
            line = bytes(spoilt)
        told = re.fullmatch(rb"([A-Za-z0-9][A-Za-z0-9_.:-]*) (\d+) (?:ok|bad ([^\n]+))\n?", line)
        room = told and (told[1].decode() in model or len(model) < MAX)
        result = kernel.report(line)
        if not told or int(told[2]) > DAY_S:
            assert result == -errno.EINVAL, line
        elif not told[3] and int(told[2]) == 0:
            assert result == int(told[1].decode() in model), line
            model.pop(told[1].decode(), None)
        elif not room:
            assert result == -errno.ENOSPC, line
        else:
            printed = re.sub(rb"[^ -~]", b"?", told[3] or b"").decode()
            model[told[1].decode()] = (printed, int(told[2]), kernel.now_s)
            assert result in (0, 1), line
        silent = {n for n, (t, p, s) in model.items() if not t and kernel.now_s > s + p}
        bad = silent | {n for n, (t, _, _) in model.items() if t}
        assert len(kernel.bad()) == len(bad)
        assert sorted(kernel.names) == sorted(model)
        left = [s + p + 1 - kernel.now_s for t, p, s in model.values() if not t]
        assert kernel.wait_s() == min((wait for wait in left if wait > 0), default=0)
