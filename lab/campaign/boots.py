# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Real boots of judged images: they check the shortcut that everything else stands on.

Images of one class (decision, words, write logs of disks) boot alike, so each class is booted once,
the rarest first, and then others by chance. A boot must decide what the engine said; the first of a
class must also come up: a resumed guest has gone on with its file where it was, a cold booted one
answers. Anything else is a disagreement, which is a violation too.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab import run
from lab.campaign import engine as program
from lab.campaign.store import Store
from lab.errors import HangError, RemError, UsageError
from lab.machine import Machine, MachineConfig
from lab.say import say

NOTE_LIMIT_S = 120.0
GUEST_LIMIT_S = 300.0
# Every line is the number of the one before plus one, and the last one may be half written.
CHECK = "sed '$d' /root/log | awk '$1 != NR { exit 1 }' && test -s /root/log"


@dataclass(frozen=True)
class Image:
    """One judged image."""

    recording: str
    event: int
    eviction: str
    reason: str
    sequence: int
    kind: str  # its class
    first: bool  # of its class


@dataclass(frozen=True)
class Booted:
    """What the boots amount to."""

    booted: int
    disagreements: tuple[str, ...]
    classes_unbooted: int
    cpu_s: float


def _image(recording: str, row: tuple[Any, ...], first: bool) -> Image:
    event, eviction, reason, sequence, kind = row
    return Image(recording, event, eviction, reason, sequence, kind, first)


def choose(store: Store, recording: str, count: int) -> list[Image]:
    """One of each class, the rarest class first; then others, the same for the same results."""
    classes = [
        row[0]
        for row in store.rows(
            "SELECT class FROM image WHERE recording = ? GROUP BY class ORDER BY count(*), class",
            recording,
        )
    ]
    query = "SELECT event, eviction, reason, sequence, class FROM image WHERE recording = ?"
    chosen: list[Image] = []
    for kind in classes[:count]:
        rows = store.rows(f"{query} AND class = ? ORDER BY digest LIMIT 1", recording, kind)
        chosen += [_image(recording, row, first=True) for row in rows]
    left = count - len(chosen)
    taken = {(image.event, image.eviction) for image in chosen}
    rest = store.rows(f"{query} ORDER BY substr(digest, 8) LIMIT ?", recording, count * 2)
    others = [_image(recording, row, first=False) for row in rest if (row[0], row[1]) not in taken]
    return chosen + others[: max(0, left)]


def boot_all(engine: Path, store: Store, recording: Path, name: str, count: int) -> Booted:
    """Boot *count* images of a recording that kept its disks."""
    images = choose(store, str(recording), count)
    config = MachineConfig.from_json((recording / "machine.json").read_text(encoding="utf-8"))
    plain = replace(config, name=name, icount=False, plugin=None)
    before_s = _children_s()
    wrong: list[str] = []
    with Machine.create(plain, destroy_on_exit=True) as machine:
        for image in images:
            found, agrees = _boot(engine, machine, recording, image)
            expected = f"{image.reason} {image.sequence}" if image.sequence else image.reason
            store.add_boot(
                (
                    image.kind,
                    image.recording,
                    image.event,
                    image.eviction,
                    expected,
                    found,
                    agrees,
                    0,
                )
            )
            if not agrees:
                line = (
                    f"cut {image.event} evict {image.eviction}: judged {expected}, booted {found}"
                )
                say(f"campaign: {line}")
                wrong.append(line)
    classes = int(
        store.scalar("SELECT count(DISTINCT class) FROM image WHERE recording = ?", str(recording))
    )
    seen = len({image.kind for image in images})
    return Booted(len(images), tuple(wrong), classes - seen, _children_s() - before_s)


def _boot(engine: Path, machine: Machine, recording: Path, image: Image) -> tuple[str, bool]:
    """What the machine does with the image, and whether that is what was judged."""
    nvram = machine.files.nvram(machine.config)
    program.replay(engine, recording, image.event, image.eviction, 0, nvram)
    # A resumed kernel knows its disk: before the consume that of the beginning.
    disk = "disk.base" if _is_first_image(recording, image) else "disk.end"
    run.run(["cp", "--sparse=always", recording / disk, machine.files.disk], what="copying a disk")
    try:
        machine.boot()
        note = machine.wait_boot_note(NOTE_LIMIT_S)
        name = note.reason.removeprefix("COLD_").lower().replace("_", "-")
        found = "resume" if note.resumed else name
        agrees = found == image.reason and (not note.resumed or note.sequence == image.sequence)
        if agrees and image.first:
            found = _comes_up(machine, found)
            agrees = found == image.reason
    except (HangError, RemError) as error:
        found, agrees = error.message, False
    finally:
        machine.guest.close()
        with suppress(UsageError):  # it is off already
            machine.cut(immediate=True)
    return found, agrees


def _comes_up(machine: Machine, decision: str) -> str:
    """The decision, if the guest then is what it should be; else what it is."""
    if decision == "resume":
        machine.wait_resumed(GUEST_LIMIT_S)
    else:
        machine.wait_ready(GUEST_LIMIT_S)
    machine.guest.wait_ssh(GUEST_LIMIT_S)
    done = machine.guest.run(CHECK, check=False)
    return decision if done.ok else f"{decision}, and /root/log is wrong"


def _is_first_image(recording: Path, image: Image) -> bool:
    first = (recording / "first-image").read_text(encoding="utf-8").strip()
    return image.reason == "resume" and str(image.sequence) == first


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
