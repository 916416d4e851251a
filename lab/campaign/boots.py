# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real boots of checked images: they verify the engine's decisions, and what no image shows:
devices, disks and the programs of the guest.

Images of one class (decision, words, content of disks) boot alike. Classes are taken in turn from
each place and decision, the rarest first. An image is NVRAM's media and the disk's, both at the
cut; of what is in the disk's cache, some images lose all and some only random sectors. The loader
must decide as the engine did. The first boots run to the end: the guest comes up, the workload's
own check must find every promise kept that was made before the cut, and the disk's file system must
be clean. The others, which cost a fraction of that, end when the loader has decided. Anything else
is a disagreement, which is a violation, too.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from lab import run
from lab.campaign import engine as program
from lab.campaign import shrink, workload
from lab.campaign.laid import behind_firmware
from lab.campaign.record import flushes_end_in_memory, fresh
from lab.campaign.store import Store
from lab.campaign.workload import Workload
from lab.errors import HangError, RemError, UsageError
from lab.machine import Machine, MachineConfig, disks, fsck
from lab.machine.console import READY_MARK
from lab.machine.cut_plan import UNANNOUNCED
from lab.messages import info
from lab.progress import step
from lab.record.boot_note import BootNote
from lab.setup.ovmf import Ovmf
from lab.setup.products import need
from lab.testbed.fsync_guest import SYSFS
from lab.testbed.machines import parts_of

# In a soak: so many classes, and this share of all resumed images.
CLASSES_MAX = 1_000
RESUMES_SHARE = 0.01
NOTE_LIMIT_S = 120.0
GUEST_LIMIT_S = 300.0
PLACE_ORDER = ("running", "stop-commit", "go-devices", "loader", "stop-save", "go-cpus")


@dataclass(frozen=True)
class Image:
    """One image that the engine has checked."""

    recording: str
    event: int
    eviction: str
    reason: str
    sequence: int
    kind: str  # its class
    place: str


@dataclass(frozen=True)
class BootPlan:
    """How many images of one recording are booted."""

    images: int  # of as many classes as possible
    whole: int  # of them, booted to the end; the others until the loader has decided
    resumed: int = 0  # besides, of the images that are resumed
    machines: int = 1  # at once


@dataclass(frozen=True)
class Booted:
    """The results of the boots."""

    booted: int
    whole: int  # of them, to the end
    disagreements: tuple[str, ...]
    classes_unbooted: int
    cpu_s: float  # of the whole ones


def choose(store: Store, recording: str, count: int) -> list[Image]:
    """Each place and decision in turn, the rarest class first; deterministic."""
    query = """SELECT event, eviction, reason, sequence, class, place, min(digest)
      FROM image WHERE recording = ? GROUP BY class, place ORDER BY count(*), substr(digest, 8)"""
    groups: dict[tuple[str, str], list[Image]] = {}
    for row in store.rows(query, recording):
        image = _image(recording, row)
        groups.setdefault((image.place, image.reason), []).append(image)
    chosen: list[Image] = []
    seen: set[str] = set()
    for image in _by_turns(groups):
        if len(chosen) < count and image.kind not in seen:
            seen.add(image.kind)
            chosen.append(image)
    return chosen + _others(store, recording, count - len(chosen), chosen)


def _image(recording: str, row: tuple[Any, ...]) -> Image:
    event, eviction, reason, sequence, kind, place = row[:6]
    return Image(recording, event, eviction, reason, sequence, kind, place)


def _rank(group: tuple[str, str]) -> tuple[bool, int, str]:
    """So that few boots are of all kinds: images that are entered, then running, Stop, Go."""
    place, reason = group
    order = PLACE_ORDER.index(place) if place in PLACE_ORDER else len(PLACE_ORDER)
    return reason != "resume", order, reason


def _by_turns(groups: dict[tuple[str, str], list[Image]]) -> Iterator[Image]:
    longest = max((len(group) for group in groups.values()), default=0)
    for turn in range(longest):
        for key in sorted(groups, key=_rank):
            if turn < len(groups[key]):
                yield groups[key][turn]


def soak_counts(store: Store, recording: str) -> tuple[int, int]:
    """For a cycle of a soak: of how many classes images are booted, and how many resumed ones."""
    seen = int(store.scalar("SELECT count(DISTINCT class) FROM boot"))
    query = "SELECT count(DISTINCT class) FROM image WHERE recording = ?"
    classes = int(store.scalar(query, recording))
    query = "SELECT count(*) FROM image WHERE recording = ? AND verdict = 'resumed'"
    resumed = int(store.scalar(query, recording))
    return max(0, min(classes, CLASSES_MAX - seen)), math.ceil(resumed * RESUMES_SHARE)


def _resumed(store: Store, recording: str, count: int, taken: list[Image]) -> list[Image]:
    """Further images that are resumed, in the order of their digests."""
    known = {(image.event, image.eviction) for image in taken}
    query = """SELECT event, eviction, reason, sequence, class, place FROM image
      WHERE recording = ? AND verdict = 'resumed' ORDER BY substr(digest, 8) LIMIT ?"""
    rows = store.rows(query, recording, count + len(taken))
    return [_image(recording, row) for row in rows if (row[0], row[1]) not in known][:count]


def _others(store: Store, recording: str, count: int, taken: list[Image]) -> list[Image]:
    """Further images, if there are fewer classes than boots."""
    if count <= 0:
        return []
    known = {(image.event, image.eviction) for image in taken}
    query = """SELECT event, eviction, reason, sequence, class, place FROM image
      WHERE recording = ? ORDER BY substr(digest, 8) LIMIT ?"""
    rows = store.rows(query, recording, count + len(taken))
    rest = [_image(recording, row) for row in rows if (row[0], row[1]) not in known]
    return rest[:count]


def bootable(recording: Path) -> bool:
    """Whether a recording has what a boot needs; the model's recordings do not."""
    return all((recording / name).is_file() for name in ("disk-0.base", "workload.json"))


def boot_machine(recording: Path, name: str) -> Machine:
    """A new machine like the recorded one, without caches."""
    config = MachineConfig.from_json((recording / "machine.json").read_text(encoding="utf-8"))
    need(parts_of(config.isa).programs)
    if config.firmware_code is not None:
        need(Ovmf())  # what makes the disk that it boots from, too
    return fresh(replace(config, name=name, icount=False, plugin=None))


def boot_all(engine: Path, store: Store, recording: Path, name: str, plan: BootPlan) -> Booted:
    """Boot images of a recording that kept its disk, on machines that are called *name*."""
    images = choose(store, str(recording), plan.images)
    images += _resumed(store, str(recording), plan.resumed, images)
    whole = min(plan.whole, len(images))
    load = Workload.read(recording)
    before_s = _children_s()
    wrong: list[str] = []

    def note(image: Image, broken: str, how: str) -> None:
        expected = f"{image.reason} {image.sequence}" if image.sequence else image.reason
        place = (image.recording, image.event, image.eviction)
        store.add_boot((image.kind, *place, expected, broken or expected, not broken, 0))
        line = f"cut {image.event} evict {image.eviction} in {image.place}: {expected}"
        info(f"campaign: {how} {line}{': ' + broken if broken else ''}")
        shown.advance()
        if broken:
            wrong.append(f"{line}: {broken}")
            info(f"campaign: {shrink.command(recording, image.event, image.eviction)} --boot")

    def to_the_end(machine: Machine, image: Image) -> str:
        return boot(engine, machine, recording, image, load)

    def to_the_decision(machine: Machine, image: Image) -> str:
        return decide(engine, machine, recording, image)

    with ExitStack() as stack:
        shown = stack.enter_context(step("campaign: boots", len(images), "boots"))
        made = [
            stack.enter_context(boot_machine(recording, f"{name}-{number}"))
            for number in range(min(plan.machines, len(images)))
        ]
        for image, broken in at_once(made, images[:whole], to_the_end):
            note(image, broken, "booted")
        whole_s = _children_s() - before_s
        for image, broken in at_once(made, images[whole:], to_the_decision):
            note(image, broken, "the loader decided")
    classes = store.scalar(
        "SELECT count(DISTINCT class) FROM image WHERE recording = ?", str(recording)
    )
    seen = len({image.kind for image in images[:whole]})
    return Booted(len(images), whole, tuple(wrong), int(classes) - seen, whole_s)


def at_once(
    machines: list[Machine], images: list[Image], way: Callable[[Machine, Image], str]
) -> Iterator[tuple[Image, str]]:
    """What is wrong with each image, in their order; each machine boots one at a time."""
    idle: SimpleQueue[Machine] = SimpleQueue()
    for machine in machines:
        idle.put(machine)

    def one(image: Image) -> tuple[Image, str]:
        machine = idle.get()
        try:
            return image, way(machine, image)
        finally:
            idle.put(machine)

    if images:
        with ThreadPoolExecutor(len(machines), "rem-boot") as pool:
            yield from pool.map(one, images)


def boot(engine: Path, machine: Machine, recording: Path, image: Image, load: Workload) -> str:
    """What is wrong with the machine that boots the image; empty if nothing is."""
    replayed = _lay(engine, machine, recording, image)
    output = (recording / "console.base").read_bytes()
    output += (recording / "console.log").read_bytes()[: replayed["console_bytes"]]
    resumed = image.reason == "resume"
    try:
        # Where flushes end in memory a disk is whole when the next boot has written what it lacks.
        in_memory = flushes_end_in_memory(machine.config)
        if not resumed and not in_memory and (dirty := _fsck_copy(machine.files.disk)):
            return dirty
        machine.boot()
        broken = _decision(machine, image) or _comes_up(machine, load, output, resumed)
        if not broken and (resumed or in_memory):
            to_disk = f"echo disk >{SYSFS}/state && sync" if in_memory else "sync"
            machine.run_in_guest(to_disk, limit_s=GUEST_LIMIT_S)
            machine.guest.close()
            machine.cut(UNANNOUNCED)
            broken = fsck.damage(machine.files.disk)
        return broken
    except RemError as error:
        return error.message
    finally:
        machine.guest.close()
        with suppress(UsageError):  # if it is off already
            machine.cut(UNANNOUNCED)


def decide(engine: Path, machine: Machine, recording: Path, image: Image) -> str:
    """What is wrong with the loader's decision on the image; the power is cut right after it.

    The disk is that of an earlier image, as nothing that uses it is checked.
    """
    _lay_nvram(engine, machine, recording, image)
    try:
        machine.boot()
        return _decision(machine, image)
    except RemError as error:
        return error.message
    finally:
        with suppress(UsageError):
            machine.cut(UNANNOUNCED)


def _lay(engine: Path, machine: Machine, recording: Path, image: Image) -> dict[str, Any]:
    """Lay out NVRAM and disk as that cut left them; return the engine's report."""
    replayed = _lay_nvram(engine, machine, recording, image)
    _lay_disk(machine, recording, int(replayed["disk_log"].get("0", 0)), image.event)
    return replayed


def _lay_nvram(engine: Path, machine: Machine, recording: Path, image: Image) -> dict[str, Any]:
    config = machine.config
    nvram = machine.files.nvram(config)
    if not config.block_bytes:
        return program.replay(engine, recording, image.event, image.eviction, 0, nvram)
    media = nvram.with_suffix(".laid")
    try:
        done = program.replay(engine, recording, image.event, image.eviction, 0, media)
        behind_firmware(media, nvram, config)
        return done
    finally:
        media.unlink(missing_ok=True)


def _lay_disk(machine: Machine, recording: Path, log_bytes: int, seed: int) -> None:
    """Lay out the disk at that cut. What its cache may lose is lost whole, or by sectors."""
    run.run(
        ["cp", "--sparse=always", recording / "disk-0.base", machine.files.disk],
        what="copying a disk",
    )
    loss: disks.DiskLoss = "some" if seed % 2 else "all"
    disks.apply_log(machine.files.disk, recording / "disk-0.log", log_bytes, loss, seed)


def _decision(machine: Machine, image: Image) -> str:
    return wrong_decision(machine.wait_boot_note(NOTE_LIMIT_S), image)


def wrong_decision(note: BootNote, image: Image) -> str:
    """How the loader's decision differs from the engine's; empty if it does not."""
    found = "resume" if note.resumed else note.reason.removeprefix("COLD_").lower()
    found = found.replace("_", "-")
    if found != image.reason:
        return f"the engine decided {image.reason}, and the loader decided {found}"
    if note.resumed and note.sequence != image.sequence:
        return f"the engine chose image {image.sequence}, and the loader entered {note.sequence}"
    return ""


def _comes_up(machine: Machine, load: Workload, output: bytes, resumed: bool) -> str:
    """What is wrong with the guest."""
    if resumed:
        machine.wait_resumed(GUEST_LIMIT_S)
    elif panic := _panic_of_cold_boot(machine):
        return workload.broken_promises("all", panic)
    try:
        machine.guest.wait_ssh(GUEST_LIMIT_S)
    except HangError as error:
        return error.message
    return str(workload.check(machine, load, output.decode(errors="replace"), resumed) or "")


def _panic_of_cold_boot(machine: Machine) -> str:
    """Wait until it is up, and return nothing; or what the console says of its kernel's panic.

    It would boot again, and panic again, until a limit: a root that flushes have not reached.
    """
    assert machine.console is not None
    found = machine.console.expect(rf"{READY_MARK}|Kernel panic.*\n", GUEST_LIMIT_S)[0]
    return "" if found == READY_MARK else found.strip()


def _fsck_copy(disk: Path) -> str:
    """The damage to a disk that is booted afterwards."""
    copy = disk.with_suffix(".fsck")
    try:
        run.run(["cp", "--sparse=always", "--reflink=auto", disk, copy], what="copying a disk")
        return fsck.damage(copy)
    finally:
        copy.unlink(missing_ok=True)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
