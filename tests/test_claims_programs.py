# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: programs that would notice a wrong resume do not.

Method: groups of self-checking programs (guest/README.md), a compile and a debugger run through
two cuts on one machine; then each must print OK, and its numbers must have advanced after each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lab.addresses import HOST_ADDRESS
from lab.clients.process import ClientProcess
from lab.machine import Machine
from lab.testbed.cycle import cut_and_resume
from lab.testbed.guest_job import GuestJob
from tests.support.claims import ANSWER_LIMIT_S, ARCH, SLOWER, booted, warnings

CUTS = 2
CPUS = 4
RUN_S = 2.0 * SLOWER  # before and between the cuts
NICE = 19  # of the programs, so that the guest answers although all its CPUs compute

pytestmark = [pytest.mark.full, pytest.mark.timeout(900 * SLOWER)]

# Programs that run together; rem-mem uses half of the memory, so the last group is small.
EVERY_GROUP: tuple[dict[str, tuple[str, ...]], ...] = (
    {
        "rem-cpu": (),
        "rem-signals": (),
        "rem-clock": (),
        "rem-tcp": (),
        "rem-futex": (),
        "rem-pipes": (),
    },
    {
        "rem-vfork": (),
        "rem-ptrace": (),
        "rem-fork": (),
        "rem-mmap": (),
        "rem-fsync": ("--mode", "direct"),
    },
    {"rem-mem": ("--percent", "50"), "rem-prime": ("--limit", "10000000")},
)
# A debugger with debug registers, which Linux has none of on RISC-V.
X86_ONLY = {"rem-ptrace"} if ARCH != "x86_64" else set()
GROUPS = [{p: o for p, o in group.items() if p not in X86_ONLY} for group in EVERY_GROUP]
PROGRAMS = sorted(program for group in GROUPS for program in group)


@dataclass(frozen=True)
class Story:
    """The progress of one program through the cuts."""

    verdict: str
    progress: tuple[dict[str, int], ...]  # before the first cut and after each


@pytest.fixture(
    scope="module",
    params=["fast", *(pytest.param(stop, marks=pytest.mark.soak) for stop in ("dpm", "sng"))],
)
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    with booted("programs", CPUS, request.param) as machine:
        yield machine


@pytest.fixture(scope="module")
def stories(machine: Machine) -> dict[str, Story]:
    stories: dict[str, Story] = {}
    with ClientProcess(machine.network.exec_prefix(), "peer", host=HOST_ADDRESS) as peer:
        extra = {"rem-tcp": ("--peer", f"{HOST_ADDRESS}:{peer.started['ports'][0]}")}
        for group in GROUPS:
            stories |= run_group(machine, {p: (*o, *extra.get(p, ())) for p, o in group.items()})
        failures = peer.ask("status")["failures"]
        assert not failures, failures
    return stories


def run_group(machine: Machine, group: dict[str, tuple[str, ...]]) -> dict[str, Story]:
    jobs = {p: GuestJob(machine, p, *options, nice=NICE) for p, options in group.items()}
    time.sleep(RUN_S)
    progress = {program: [job.ask(ANSWER_LIMIT_S)] for program, job in jobs.items()}
    for _ in range(CUTS):
        cut_and_resume(machine)
        time.sleep(RUN_S)
        for program, job in jobs.items():
            # A program that failed answers no more; its verdict has the reason.
            progress[program].append(job.ask(ANSWER_LIMIT_S) if job.failure() is None else {})
    return {p: Story(job.finish(ANSWER_LIMIT_S), tuple(progress[p])) for p, job in jobs.items()}


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_that_would_notice_does_not(program: str, stories: dict[str, Story]) -> None:
    story = stories[program]
    assert story.verdict.startswith(f"OK {program} "), story
    for before, after in zip(story.progress, story.progress[1:], strict=False):
        moved = [key for key, value in after.items() if value != before.get(key)]
        assert moved, f"{program} stood still over a cut: {story.progress}"


def test_task_was_in_uninterruptible_sleep(stories: dict[str, Story]) -> None:
    last = stories["rem-vfork"].progress[-1]
    assert last["uninterruptible"] >= last["looks"] / 2, last


def test_interrupted_compile_continues_to_the_same_program(machine: Machine) -> None:
    machine.run_in_guest(COMPILE_SETUP)
    run_through_cuts(machine, "make -C /root/compile -j4 -s", "/root/compile/done")
    machine.run_in_guest("cp /root/compile/program /root/compile/first")
    machine.run_in_guest(
        "make -C /root/compile -s clean && make -C /root/compile -j4 -s", True, 300
    )
    machine.run_in_guest("cmp /root/compile/program /root/compile/first")
    assert machine.run_in_guest("/root/compile/program").stdout == "66\n"


# Twelve files, each large enough that a compiler is always running.
COMPILE_SETUP = r"""
rm -rf /root/compile && mkdir -p /root/compile && cd /root/compile
for i in $(seq 0 11); do
  { echo "#include <stdio.h>"
    for j in $(seq 0 19); do
      echo "static int g${i}_$j(int x) { int s = 0; for (int k = 0; k < x; k++) s += k ^ $j;"
      echo "return s; }"
    done
    echo "int f$i(void) { return g${i}_0(0) + $i; }"; } > f$i.c
done
{ seq 0 11 | sed 's/.*/int f&(void);/'; echo '#include <stdio.h>'
  echo 'int main(void) { int s = 0;'; seq 0 11 | sed 's/.*/s += f&();/'
  echo 'printf("%d\n", s); }'; } > main.c
cat > Makefile <<'MAKE'
objects = $(patsubst %.c,%.o,$(wildcard *.c))
done: program
	touch done
program: $(objects)
	gcc -o $@ $(sort $(objects))
%.o: %.c
	gcc -O2 -c -o $@ $<
clean:
	rm -f *.o program done
MAKE
"""


def run_through_cuts(machine: Machine, command: str, done: str, limit_s: float = 300.0) -> None:
    """Start a command in the guest, cut while it runs, wait until it has written *done*."""
    machine.run_in_guest(f"rm -f {done}; setsid {command} >/run/command.log 2>&1 </dev/null &")
    for _ in range(CUTS):
        time.sleep(1.0)
        assert not machine.run_in_guest(f"test -e {done}", check=False).ok, "it ended too soon"
        cut_and_resume(machine)
    wait_for(lambda: machine.run_in_guest(f"test -e {done}", check=False).ok, limit_s, command)
    log = machine.run_in_guest("cat /run/command.log").stdout
    assert "rror" not in log, log


def wait_for(is_true: Callable[[], bool], limit_s: float, what: str) -> None:
    end_s = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < end_s, f"{what}: not done after {limit_s:g} s"
        time.sleep(0.5)


# gdb steps a program through a breakpoint 1500 times; each stop has the next value of a counter.
GDB_PROGRAM = r"""
cat > /root/counted.c <<'C'
volatile long counter;
void tick(void) { counter++; }
int main(void) { for (;;) tick(); }
C
gcc -g -O0 -o /root/counted /root/counted.c
cat > /root/counted.gdb <<'GDB'
set pagination off
set confirm off
break tick
run
set $n = 0
while $n < 1500
  if counter != $n
    printf "error: %d is not %d\n", counter, $n
    quit 1
  end
  set $n = $n + 1
  continue
end
shell touch /root/counted.done
quit 0
GDB
"""


@pytest.mark.in_turn
def test_debugger_at_work_loses_no_breakpoint(machine: Machine) -> None:
    machine.run_in_guest(GDB_PROGRAM)
    run_through_cuts(
        machine, "gdb -q -batch -x /root/counted.gdb /root/counted", "/root/counted.done"
    )


def test_kernel_logged_no_warning(machine: Machine, stories: dict[str, Story]) -> None:
    assert stories and warnings(machine) == []
