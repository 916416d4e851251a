# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The ways to persist that `rem bench persist` compares: what each prepares, runs, does when power
fails, and does when power is back.

All have the same medium: the last 256 MiB of NVRAM, /dev/pmem0, as swap space or with a file
system on it. What Stop and Go keep is in the rest of the same NVRAM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

from lab.machine.config import StopModeName

BIN = "/root/persist"
DEVICE = "/dev/pmem0"
PLACE = "/mnt"
PROGRAM = "table"  # which every way can run, or has its own form of
MKFS = f"mkfs.ext4 -q -F -b 4096 {DEVICE}"
MOUNT = f"mount {DEVICE} {PLACE}"
MOUNT_DAX = f"mount -o dax {DEVICE} {PLACE}"
CHECKPOINT_EVERY_S = 1  # LightPC, section VI: S-CheckPC
FIRST_PID = 20000  # no process of another boot has the number when CRIU needs it

PLAIN = f"{BIN}/{PROGRAM} --rounds $rounds"
HIBERNATE = f"swapon {DEVICE} && echo shutdown >/sys/power/disk && echo disk >/sys/power/state"
DUMP_TIMES = "/run/dumps"  # of each dump, in ns, until it is durable
DUMPS = f"""n=0
while sleep {CHECKPOINT_EVERY_S}; do
    n=$((n + 1))
    begin=$(date +%s%N)
    mkdir {PLACE}/$n
    criu dump -t $pid -D {PLACE}/$n --leave-running >/dev/null || exit
    sync
    ln -sfn $n {PLACE}/new && mv -T {PLACE}/new {PLACE}/last && sync
    echo $(($(date +%s%N) - begin)) >>{DUMP_TIMES}
    rm -rf {PLACE}/$((n - 1))
done"""

# After the program: as many bytes as the last dump has pages, by the kernel alone, in ns until they
# are durable; then what CRIU counted of that dump.
COPIES = 5
COPY = f"""cat {PLACE}/last/pages-*.img >/run/pages
for n in $(seq {COPIES}); do
    begin=$(date +%s%N)
    cat /run/pages >{PLACE}/copy
    sync
    echo $(($(date +%s%N) - begin))
    rm {PLACE}/copy
done"""
STATISTICS = f"od -An -v -tu1 {PLACE}/last/stats-dump"

# Where power fails before the first dump is durable, there is only the beginning.
RESTORE = f"""if [ -e {PLACE}/last ]; then
    criu restore -D {PLACE}/last -d --pidfile /run/pid >/dev/null && pid=$(cat /run/pid)
else
    setsid {PLAIN} >{PLACE}/log 2>&1 </dev/null &
    pid=$!
fi"""


Run = Literal["whole", "cut"]


class Failure(Enum):
    """What a way does when power fails."""

    STOP = "Stop"  # within the supply's hold-up
    HIBERNATE = "hibernation"  # which needs power much longer
    NOTHING = "nothing"  # the power is gone at once


@dataclass(frozen=True)
class Way:
    """One way. Commands are the guest's; they run with $rounds set."""

    name: str
    about: str
    failure: Failure
    program: str  # of guest/persist, with its arguments
    prepare: str = ":"  # once, before the program
    beside: str = ""  # runs beside the program, which is $pid
    back: str | None = None  # power is back, after a cold boot; None: the program goes on by itself
    again: str | None = None  # what runs then; None: the program, which recovers by itself
    log: str = "/run/persist.log"
    stop_mode: StopModeName | None = None
    runs: tuple[Run, ...] = ("whole", "cut")  # without a failure, and with one


def _kept(name: str, about: str, program: str, dax: bool = True) -> Way:
    """A program that keeps its own state in files."""
    mount = MOUNT_DAX if dax else MOUNT
    return Way(name, about, Failure.NOTHING, program, f"{MKFS} && {mount}", back=mount)


WAYS = {
    way.name: way
    for way in (
        Way("ours", "Stop and Go", Failure.STOP, PLAIN, stop_mode="fast"),
        Way(
            "sng",
            "LightPC's Stop-and-Go: processes idle, each device suspended by its driver, Auto-Stop",
            Failure.STOP,
            PLAIN,
            stop_mode="sng",
        ),
        Way(
            "fof",
            "WSP's flush on fail: a persistent region of plain memory, no flush at commit",
            Failure.STOP,
            f"{BIN}/{PROGRAM}-fof --rounds $rounds --file {PLACE}/fof",
            f"{MKFS} && {MOUNT_DAX}",
            stop_mode="fast",
        ),
        Way(
            "syspc",
            "SysPC: Linux hibernates to the same memory",
            Failure.HIBERNATE,
            PLAIN,
            f"mkswap -q {DEVICE} >/dev/null",
        ),
        _kept("acheckpc", "A-CheckPC: checkpoints at the ends of functions, by the compiler",
              f"{BIN}/{PROGRAM}-checkpoint --rounds $rounds --file {PLACE}/checkpoint"),
        Way(
            "scheckpc",
            f"S-CheckPC: CRIU dumps the process each {CHECKPOINT_EVERY_S} s",
            Failure.NOTHING,
            PLAIN,
            f"{MKFS} && {MOUNT} && echo {FIRST_PID} >/proc/sys/kernel/ns_last_pid",
            beside=DUMPS,
            back=MOUNT,
            again=RESTORE,
            log=f"{PLACE}/log",
        ),
        _kept("heap", "a persistent heap that flushes on commit, undo logs",
              f"{BIN}/{PROGRAM}-heap --rounds $rounds --file {PLACE}/heap"),
        _kept("block", "a log and snapshots on a block device, fdatasync",
              f"{BIN}/{PROGRAM}-block --rounds $rounds --folder {PLACE}", dax=False),
        _kept("dax", "mapped persistent memory, written back by the program",
              f"{BIN}/{PROGRAM}-dax --rounds $rounds --file {PLACE}/table"),
    )
}  # fmt: skip

# SysPC where memory holds more: what an image is made of decides how long it takes.
FULLER_MIB = 64
FULLER = replace(
    WAYS["syspc"],
    name="syspc-fuller",
    about=f"SysPC, with {FULLER_MIB} MiB more in memory",
    prepare=f"head -c {FULLER_MIB}M /dev/urandom >/dev/shm/more && {WAYS['syspc'].prepare}",
    runs=("cut",),
)
# S-CheckPC of a program with more: a dump has all of its memory.
HELD_MIB = 96
_HOLDS = f"{PLAIN} --hold_mib {HELD_MIB}"
FULLER_PROGRAM = replace(
    WAYS["scheckpc"],
    name="scheckpc-fuller",
    about=f"S-CheckPC, of a program with {HELD_MIB} MiB more",
    program=_HOLDS,
    again=RESTORE.replace(PLAIN, _HOLDS),
    runs=("cut",),
)
# What A-CheckPC costs depends on how much a function does before its end: here a quarter of what
# the table's does.
SHORT = replace(
    WAYS["ours"],
    name="table-short",
    about="the table with steps of four reads, as written",
    program=f"{BIN}/table_short --rounds $rounds",
    runs=("whole",),
)
SHORT_SAVED = replace(
    WAYS["acheckpc"],
    name="table-short-acheckpc",
    about="A-CheckPC of the table with steps of four reads",
    program=f"{BIN}/table_short-checkpoint --rounds $rounds --file {PLACE}/checkpoint",
    runs=("whole",),
)
SWEPT = {way.name: way for way in (FULLER, FULLER_PROGRAM, SHORT, SHORT_SAVED)}
