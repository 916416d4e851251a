# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An inner check: two runs that resume one image draw different random numbers."""

from __future__ import annotations

import time
from pathlib import Path

from lab import run
from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.verdict import BrokenError
from tests.support.claims import GO_LIMIT_S

# Each line: the offset of BOOTTIME to MONOTONIC, read *before* the random number.
START = r"""
cat > /run/random.py <<'PY'
import os, time
now_ns = time.clock_gettime_ns
with open("/run/random.log", "w", buffering=1) as log:
    while True:
        away = now_ns(time.CLOCK_BOOTTIME) - now_ns(time.CLOCK_MONOTONIC)
        log.write(f"{away // 100_000_000} {os.urandom(16).hex()}\n")
        time.sleep(0.005)
PY
test ! -e /run/random.pid || kill $(cat /run/random.pid)
rm -f /run/random.log
setsid python3 /run/random.py >/run/random.err 2>&1 </dev/null &
echo $! >/run/random.pid
until [ -e /run/random.log ] && [ $(wc -l </run/random.log) -gt 100 ]; do sleep 0.1; done
"""
LINES_AFTER_GO = 200
RUN_LIMIT_S = 60.0


def media(machine: Machine) -> list[Path]:
    return [machine.files.nvram(machine.config), machine.files.disk]


def copy(source: Path, target: Path) -> None:
    """Copy into the same inode; holes stay holes, which avoids writing gigabytes."""
    run.run(["cp", "--sparse=always", source, target])


def _run_after_go(machine: Machine) -> list[tuple[int, str]]:
    """Resume, let it run, and cut it without a Stop, so that the media can be restored."""
    machine.resume()
    machine.wait_resumed(GO_LIMIT_S)
    end_s = time.monotonic() + RUN_LIMIT_S
    lines: list[tuple[int, str]] = []
    while time.monotonic() < end_s:
        text = machine.run_in_guest("cat /run/random.log").stdout
        lines = [(int(a), b) for a, _, b in (x.partition(" ") for x in text.splitlines()) if b]
        if sum(away > lines[0][0] for away, _ in lines) >= LINES_AFTER_GO:
            break
        time.sleep(0.5)
    machine.guest.close()
    machine.cut(UNANNOUNCED)
    return lines


def check_no_number_comes_twice(machine: Machine, folder: Path) -> None:
    """A running machine; afterwards it is off, on the media of its Stop."""
    machine.run_in_guest(START)
    machine.guest.close()
    assert machine.cut().stopped
    time.sleep(1.5)  # so that the offset distinguishes before from after
    kept = [folder / path.name for path in media(machine)]
    for path, copied in zip(media(machine), kept, strict=True):
        copy(path, copied)
    runs = []
    for _ in range(2):
        runs.append(_run_after_go(machine))
        for path, copied in zip(media(machine), kept, strict=True):
            copy(copied, path)

    before = [[value for away, value in run if away == run[0][0]] for run in runs]
    after = [[value for away, value in run if away > run[0][0]] for run in runs]
    common = min(map(len, before))
    assert common > 50 and before[0][: common - 1] == before[1][: common - 1], "not one image"
    assert min(map(len, after)) >= LINES_AFTER_GO
    if twice := set(after[0]) & set(after[1]):
        raise BrokenError("random-repeats", f"{len(twice)} random numbers were given twice")
