# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, sections V-A and VIII, uncorrectable errors: see README.md."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from lab.experiment.run import Context, Report
from lab.machine.machine import Machine
from lab.media.engine import Engine
from lab.testbed.machine_check import PAGE_BYTES, Found, address_of, report_error
from lab.testbed.machines import make_config
from lab.testbed.waiting import wait_until

LINE_BITS = 512
PIECE_BITS = 296  # of a device: 32 bytes, their generation and CRC (models/memory/src/xcc.rs)
SIMULATED = (3e-4, 1e-3, 3e-3)  # where lines that cannot be read are often enough to be counted
SPREADS = 5.0  # standard deviations between what is counted and what is computed
BCH_BITS = 10  # of check per bit that is corrected, in blocks of up to 1023 bits
CRC_DETECTS = 5  # wrong bits of a piece that CRC-32C always sees
CRC_MISSES = 2.0**-32  # of patterns with more
OWN_BITS = (1, 2, 3, 4)  # that a device corrects in its piece
LIMIT_S = 240.0
FOLDER, PROGRAM = "/run/mce", "/root/in_guest.py"
SCRIPT = Path(__file__).with_name("in_guest.py")
KILLED = -7  # by SIGBUS


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    lines = 100_000 if it.is_ci else 3_000_000
    return {
        "simulated": [
            {"raw_ber": rate, "second_code": second,
             **engine.ask("uber", raw_ber=rate, lines=lines, second_code=second, seed=it.seed)}
            for rate in SIMULATED
            for second in (False, True)
        ],
        "machine": _machine(it.out),
    }  # fmt: skip


# What a machine does.


def _machine(made: Path) -> dict[str, Any]:
    """A page that cannot be read: contained, over a power failure, then with the kernel's knob of
    the other policy."""
    with Machine.create(make_config("mce"), destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(LIMIT_S)
        found = {name: _contain(machine, made, kind) for name, kind in
                 (("load", Found.LOAD), ("scrub", Found.SCRUB))}  # fmt: skip
        reads = _value(machine, "other.reads")
        machine.guest.close()
        stopped = machine.cut().stopped
        machine.resume()
        note = machine.wait_resumed(LIMIT_S)
        machine.wait_go_done(note.sequence, LIMIT_S)
        _wait_for_reads(machine, reads)
        found["go"] = {
            "resumed": stopped and note.resumed,
            "corrupted_kib": _corrupted_kib(machine),
            "state": _state(machine),
        }
        found["reset"] = _reset(machine, made)
    return found


def _say(machine: Machine, command: str) -> str:
    return machine.run_in_guest(command, limit_s=LIMIT_S).stdout.strip()


def _state(machine: Machine) -> str:
    """Whether it would resume after a power failure: the first word of the kernel's status."""
    return _say(machine, "head -1 /sys/kernel/remanence/status").split(":")[0]


def _value(machine: Machine, name: str) -> int:
    return int(_say(machine, f"cat {FOLDER}/{name}"))


def _corrupted_kib(machine: Machine) -> int:
    return int(_say(machine, "grep HardwareCorrupted /proc/meminfo").split()[1])


def _wait_for_reads(machine: Machine, reads: int) -> None:
    """The other program goes on."""
    wait_until(lambda: _value(machine, "other.reads") > reads, "the other program reads", LIMIT_S)


def _start(machine: Machine, made: Path) -> int:
    """The physical address of the victim's page."""
    ended = "while pkill -KILL -f '[i]n_guest.py'; do sleep 0.1; done"
    _say(machine, f"{ended}; rm -rf {FOLDER}; mkdir {FOLDER}")
    contents = {name: os.urandom(PAGE_BYTES) for name in ("victim", "other")}
    for name, content in contents.items():
        path = made / f"{name}.page"
        path.write_bytes(content)
        machine.guest.put(path, f"{FOLDER}/{path.name}")
    machine.guest.put(SCRIPT, PROGRAM)
    _say(machine, f"setsid python3 {PROGRAM} {FOLDER} >/run/mce.log 2>&1 </dev/null &")
    begun = f"test -e {FOLDER}/victim.reads && test -e {FOLDER}/other.reads"
    wait_until(lambda: machine.run_in_guest(begun, check=False).ok, "both read", LIMIT_S)
    return address_of(machine, contents["victim"][::-1])


def _contain(machine: Machine, made: Path, kind: Found) -> dict[str, Any]:
    """The kernel's own policy: the page goes, with the program that has it."""
    victim = _start(machine, made)
    before = _corrupted_kib(machine)
    report_error(machine, victim, kind)
    ended = f"{FOLDER}/victim.end"
    wait_until(
        lambda: machine.run_in_guest(f"test -e {ended}", check=False).ok, "the victim ends", LIMIT_S
    )
    _wait_for_reads(machine, _value(machine, "other.reads"))
    return {
        "victim": _value(machine, "victim.end"),
        "corrupted_kib": _corrupted_kib(machine) - before,
    }


def _reset(machine: Machine, made: Path) -> dict[str, Any]:
    """The paper's policy, by the kernel's own knob: it panics, and the machine begins again."""
    victim = _start(machine, made)
    boot = _say(machine, "cat /proc/sys/kernel/random/boot_id")
    _say(machine, "sysctl -qw vm.memory_failure_recovery=0 kernel.panic=-1; sync")
    assert machine.console is not None
    before = machine.console.position()
    machine.guest.close()
    report_error(machine, victim, Found.SCRUB)
    machine.wait_up(LIMIT_S, before)
    return {
        "cold": _say(machine, "cat /proc/sys/kernel/random/boot_id") != boot,
        "corrupted_kib": _corrupted_kib(machine),
        "state": _state(machine),
    }


# What follows for rates that are too low to be simulated.


def more_than(wrong: int, bits: int, rate: float) -> float:
    """The probability that more than so many of these bits are wrong."""
    terms = (
        math.exp(
            math.lgamma(bits + 1) - math.lgamma(k + 1) - math.lgamma(bits - k + 1)
            + k * math.log(rate) + (bits - k) * math.log1p(-rate)
        )
        for k in range(wrong + 1, min(bits, wrong + 60) + 1)
    )  # fmt: skip
    return math.fsum(terms)


def lost(rate: float, second_code: bool, own_bits: int = 0) -> float:
    """The share of lines of which too many devices are wrong at once."""
    wrong = more_than(own_bits, PIECE_BITS + BCH_BITS * own_bits, rate)
    pieces, may = (4, 2) if second_code else (3, 1)
    return math.fsum(
        math.comb(pieces, k) * wrong**k * (1 - wrong) ** (pieces - k)
        for k in range(may + 1, pieces + 1)
    )


def silent(rate: float) -> float:
    """The share of lines with a piece whose CRC does not see that it is wrong."""
    return 3 * more_than(CRC_DETECTS, PIECE_BITS, rate) * CRC_MISSES


def rate_of_bits(corrected: int, uber: float) -> float:
    """The rate at which a code that corrects so many bits of a line has this UBER."""
    bits = LINE_BITS + BCH_BITS * corrected
    low, high = 1e-12, 0.1
    for _ in range(200):
        middle = math.sqrt(low * high)
        if more_than(corrected, bits, middle) / LINE_BITS < uber:
            low = middle
        else:
            high = middle
    return low


def log_uber(share: float) -> float:
    return round(math.log10(share / LINE_BITS), 2)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    _judge_machine(raw["machine"], report)
    for one in raw["simulated"]:
        share = lost(one["raw_ber"], one["second_code"])
        spread = math.sqrt(one["lines"] * share * (1 - share))
        name = f"{'XCC and second code' if one['second_code'] else 'XCC'} at {one['raw_ber']:g}"
        report.count(f"contained, {name}", one["contained"], "lines")
        report.expect(f"{name}: as many lines are contained as computed",
                      abs(one["contained"] - one["lines"] * share) <= SPREADS * spread)  # fmt: skip
        report.expect(f"{name}: none is silent", one["silent"] == 0)
    rate = rate_of_bits(paper["corrected_bits"], 10.0 ** paper["uber_log10"])
    report.add("raw_ber_log10", round(math.log10(rate), 2), "log10")
    figure = "xcc_uber_log10"
    report.add(figure, log_uber(lost(rate, False)), "log10")
    report.add("xcc_and_second_code_uber_log10", log_uber(lost(rate, True)), "log10")
    report.add(f"{figure}, errors of one device at a time", log_uber(silent(rate)), "log10")
    for bits in OWN_BITS:
        report.add(f"{figure}, devices correct {bits}", log_uber(lost(rate, False, bits)), "log10")
    for name, second in (("xcc", False), ("xcc_and_second_code", True)):
        report.add(f"{name}_raw_ber_log10", _reached(second, paper), "log10")


def _reached(second_code: bool, paper: dict[str, Any]) -> float:
    """The highest rate, as a logarithm, at which this code alone has the paper's UBER."""
    steps = (exponent / 100 for exponent in range(-100, -1600, -1))
    return next(at for at in steps if log_uber(lost(10.0**at, second_code)) <= paper["uber_log10"])


def _judge_machine(found: dict[str, Any], report: Report) -> None:
    for kind in ("load", "scrub"):
        one = found[kind]
        report.count(f"{kind}_corrupted_kib", one["corrupted_kib"], "KiB")
        report.expect(f"{kind}: the page's program gets SIGBUS", one["victim"] == KILLED)
        report.expect(f"{kind}: one page is lost, and no more", one["corrupted_kib"] == 4)
    go, reset = found["go"], found["reset"]
    report.expect("the machine goes on after a power failure", go["resumed"])
    report.expect("then the pages are lost still", go["corrupted_kib"] == 8)
    report.expect("and the next failure is covered", go["state"] == "armed")
    report.expect("reset: the machine begins again", reset["cold"])
    report.expect("reset: no page is lost then", reset["corrupted_kib"] == 0)
    report.expect("reset: the next failure is covered", reset["state"] == "armed")


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    rates = [10.0 ** (exponent / 4) for exponent in range(-48, -8)]
    bits = paper["corrected_bits"]
    curves = {
        "XCC": lambda rate: lost(rate, False),
        "XCC and second code": lambda rate: lost(rate, True),
        "XCC, devices correct 4 bits": lambda rate: lost(rate, False, 4),
        f"{bits} bits of a line": lambda rate: more_than(bits, LINE_BITS + BCH_BITS * bits, rate),
    }
    for name, share in curves.items():
        axes.loglog(rates, [max(share(rate) / LINE_BITS, 1e-30) for rate in rates], label=name)
    for second, mark in ((False, "o"), (True, "s")):
        points = [one for one in raw["simulated"]
                  if one["second_code"] == second and one["contained"]]  # fmt: skip
        axes.loglog([one["raw_ber"] for one in points],
                    [one["contained"] / one["lines"] / LINE_BITS for one in points],
                    mark, fillstyle="none", color="black")  # fmt: skip
    axes.axhline(10.0 ** paper["uber_log10"], linestyle=":", color="gray")
    axes.set(xlabel="wrong bits of those read", ylabel="lines that cannot be read, per bit (UBER)",
             ylim=(1e-26, 1e-2))  # fmt: skip
    axes.legend(frameon=False, fontsize=7)
