# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench keep`: what it takes to save a program whose memory stays where it is.

One program with a GiB of random data. In each round, in turn: `rem-keep` saves it, until all is
committed, and lets it go on; CRIU dumps it into memory (tmpfs); CRIU dumps it to the disk, until
that is synced. Times are those of the guest's clock in an emulated machine, which copies and
searches with the same emulated CPU: ratios count.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from lab.result import Result
from lab.testbed.keep_guest import KeepGuest, Sizes, keep_guest
from lab.testbed.waiting import wait_until

FACTOR_MIN = 10.0  # CRIU's dump into memory takes so many times as long
FILL_LIMIT_S = 600.0
PROGRAM = "hold"
# It says by a file that its memory is full.
HOLD = (
    "python3 -c 'import os,time; held = [os.urandom(1 << 20) for _ in range({mib})]; "
    'open("/root/full", "w").close(); time.sleep(1000000)\''
)
PID = "pgrep -o -f os.urandom"
DUMP = (
    "rm -rf {to}; mkdir -p {to}; pid=$(" + PID + "); begin=$(date +%s%N); "
    "criu dump -t $pid -D {to} --leave-running >/dev/null && {then}; "
    "echo $(($(date +%s%N) - begin)); rm -rf {to}"
)
PEERS = {
    "criu_tmpfs": {"to": "/dev/shm/dump", "then": "true"},
    "criu_disk": {"to": "/root/dump", "then": "sync -f /root"},
}


@dataclass(frozen=True)
class Plan:
    memory_bytes: int = 1 << 30
    rounds: int = 3
    name: str = "bench-keep"

    @property
    def sizes(self) -> Sizes:
        """The range has room for a dump in memory, too: on a machine of one node it lies there."""
        return Sizes(self.memory_bytes * 2 + (256 << 20), 256 << 20, 2 << 30)


def run_bench(plan: Plan, print_line: Callable[[str], None]) -> Result:
    """Measure; not ok if CRIU's dump into memory is less than ten times slower."""
    result = Result("bench-keep")
    times_ns: dict[str, list[int]] = {"ours": [], **{name: [] for name in PEERS}}
    parts: list[dict[str, int]] = []
    with keep_guest(plan.name, sizes=plan.sizes) as guest:
        print_line("filling the program's memory")
        guest.run(PROGRAM, HOLD.format(mib=plan.memory_bytes >> 20))
        wait_until(
            lambda: guest.sh("test -e /root/full", check=False).ok, "memory is full", FILL_LIMIT_S
        )
        guest.sh("mount -o remount,size=90% /dev/shm")
        for number in range(plan.rounds):
            print_line(f"round {number + 1} of {plan.rounds}")
            parts.append(_save(guest))
            times_ns["ours"].append(parts[-1]["total_us"] * 1000)
            for name, words in PEERS.items():
                times_ns[name].append(int(guest.sh(DUMP.format(**words)).stdout.split()[-1]))
        print_line("saving, and returning on a fresh system")
        _save(guest, again=False)
        guest.cut()
        status = guest.power_on()
    for name, found in times_ns.items():
        result.add(f"{name}_ns", median(found), "ns", "native")
        result.add(f"{name}_min_ns", min(found), "ns", "native")
        result.add(f"{name}_max_ns", max(found), "ns", "native")
    for name in PEERS:
        each = [
            theirs / ours for theirs, ours in zip(times_ns[name], times_ns["ours"], strict=True)
        ]
        result.add(f"dump_vs_{name}", round(median(each), 1), "x", "native")
        result.add(f"dump_vs_{name}_min", round(min(each), 1), "x", "native")
    for part in ("criu_us", "table_us", "flush_us", "commit_us"):
        result.add(f"ours_{part}", median(one[part] for one in parts), "us", "native")
    result.add("in_place_pages", parts[-1]["in_place_pages"], "pages", "counted")
    result.add("copied_pages", parts[-1]["copied_pages"], "pages", "counted")
    back = next((one for one in status["programs"] if one["name"] == PROGRAM), None)
    placed = back["placed"] if back else 0
    result.add("placed_pages", placed, "pages", "counted")
    result.add("put_us", back["put_us"] if back else 0, "us", "native")
    fast = float(result.figures["dump_vs_criu_tmpfs"].value) >= FACTOR_MIN
    result.ok = fast and placed * 4096 >= plan.memory_bytes
    return result


def _save(guest: KeepGuest, again: bool = True) -> dict[str, int]:
    """What one save took, part by part; with *again* the program goes on after it."""
    found: dict[str, int] = json.loads(guest.keep("save").stdout)
    if again:
        guest.keep("abort")
    return found
