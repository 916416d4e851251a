# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OFF2F, sections I, II, III-C and IV-D, what is in NVRAM: see README.md."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.experiment import census
from lab.experiment.census import PAGE_BYTES
from lab.experiment.run import Context, Report
from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.machine.qemu import NVRAM_PHYS
from lab.run import run
from lab.setup.off2f import Off2fTool
from lab.setup.products import need
from lab.testbed.off2f_guest import NVM, STORE, guest_with_store
from lab.testbed.pm_guest import sh, wait_up

SCRIPT = Path(__file__).with_name("in_guest.py")
# The partition of the texts: NVRAM in front of the testbed's region, and so its first device.
PARTITION_OFFSET, PARTITION_BYTES = 512 << 20, 32 << 20
MORE = f"memmap={PARTITION_BYTES >> 20}M!{NVRAM_PHYS + PARTITION_OFFSET:#x}"
PARTITION, ELSEWHERE = "/dev/pmem0", "/dev/pmem1"
IMAGE = "/root/partition"  # the same on the disk: section IV-D, step 4
# Not by an option of mount: it holds the device open, and this kernel mounts none that is open to
# writers.
ON_DISK = "/dev/loop0"
PIECE_BYTES, PIECE_CI_BYTES = 256 << 10, 2 << 20
SHORT_BYTES = 4 << 20
PATTERN = b"\xa5"  # what firmware leaves here; any other would do
# A copy of the partition: where it is, how it is mounted, and what each start of a program gives.
COPIES = {
    "elsewhere in NVRAM": (ELSEWHERE, NVM, "dax=always,noatime", "same"),
    "under another path": (ELSEWHERE, "/mnt/texts", "dax=always,noatime", "ENOENT"),
    "without direct access": (ELSEWHERE, NVM, "noatime", "ENOEXEC"),
    "on the disk": (ON_DISK, NVM, "noatime", "ENOEXEC"),
}
# A program of a store has a folder and a file there, besides its text: off2f/src/store.rs.
USER_BYTES = 2 * PAGE_BYTES


def measure(it: Context) -> dict[str, Any]:
    return {
        "census": _sizes(it.out),
        "guest": _in_guest(PIECE_CI_BYTES if it.is_ci else PIECE_BYTES),
    }


def _sizes(out: Path) -> list[dict[str, Any]]:
    """Of each program of the guests' /usr/bin, and of the two files that it becomes."""
    tool, folder = need(Off2fTool()), census.guest_tree() / "usr" / "bin"
    abc, xyz = out / "abc", out / "xyz"
    found = []
    for program in census.programs(folder):
        run([tool, "convert", folder / program.name, "--abc", abc, "--xyz", xyz], what="off2f")
        found.append(asdict(program) | {"abc": abc.stat().st_size, "xyz": xyz.stat().st_size})
    abc.unlink()
    xyz.unlink()
    return found


def _in_guest(piece_bytes: int) -> dict[str, Any]:
    """What copies of a partition are good for, and what is found of overwritten ones."""
    with guest_with_store(f"exp-off-raw-{os.getpid()}", more=MORE) as machine:
        machine.guest.put(SCRIPT, "/root/in_guest.py")
        found = {"xyz_bytes": _ask(machine, "install", STORE)}
        sh(machine, f"umount {NVM}")
        copy = "dd bs=1M status=none conv=fsync"
        sh(machine, f"{copy} if={PARTITION} of={IMAGE} && {copy} if={IMAGE} of={ELSEWHERE}")
        sh(machine, f"losetup {ON_DISK} {IMAGE}")
        found["copies"] = {name: _ask(machine, "look", *how[:3]) for name, how in COPIES.items()}
        found["short"] = _ask(machine, "short", PARTITION, SHORT_BYTES)
        found["overwritten"] = _ask(machine, "overwritten", PARTITION, piece_bytes)
        found["piece_bytes"] = piece_bytes
        hit = next(place["at"] for place in found["overwritten"]
                   if place["mounted"] and not _is_whole(place))  # fmt: skip
        found["reset"] = _reset(machine, None, 0)
        found["reset, overwritten"] = _reset(machine, hit, piece_bytes)
    return found


def _ask(machine: Machine, *words: object) -> Any:
    script = " ".join(("python3 /root/in_guest.py", *map(str, words)))
    return json.loads(sh(machine, script).stdout)


def _reset(machine: Machine, at: int | None, count: int) -> dict[str, Any]:
    """The power goes; before the kernel runs again, firmware has overwritten a piece."""
    sh(machine, "sync")
    machine.cut(UNANNOUNCED)
    if at is not None:
        with machine.files.nvram(machine.config).open("r+b") as nvram:
            nvram.seek(PARTITION_OFFSET + at)
            nvram.write(PATTERN * count)
    machine.boot()
    wait_up(machine)
    sh(machine, "insmod /root/binfmt_off2f.ko")
    found: dict[str, Any] = _ask(machine, "look", PARTITION)
    return found


def _is_whole(look: dict[str, Any]) -> bool:
    return all(one["text"] for one in look["programs"].values())


def missed(look: dict[str, Any]) -> list[str]:
    """Programs whose text has changed, and which are called whole or start."""
    return [
        name
        for name, one in look["programs"].items()
        if not one["text"] and (one["verified"] or one["started"] in ("same", "other"))
    ]


def blamed(look: dict[str, Any]) -> list[str]:
    """Programs of which each byte is there, and which are called damaged or do not start."""
    return [
        name
        for name, one in look["programs"].items()
        if one["file"] and not (one["verified"] and one["started"] == "same")
    ]


def _in_pages(count: int) -> int:
    return -(-count // PAGE_BYTES) * PAGE_BYTES


def sizes(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Bytes in NVRAM, in whole pages: of whole files, of XYZs, of what a store adds to these."""
    return {
        "whole_bytes": sum(_in_pages(row["file_bytes"]) for row in rows),
        "text_bytes": sum(row["text_bytes"] for row in rows),
        "xyz_bytes": sum(_in_pages(row["xyz"]) for row in rows),
        "store_bytes": sum(_in_pages(row["xyz"]) + USER_BYTES for row in rows),
        "abc_bytes": sum(_in_pages(row["abc"]) for row in rows),
    }


def _with_much_data(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The programs that the paper names in section I."""
    return [row for row in rows if census.is_much(row["data_bytes"], row["file_bytes"])]


def _judge_sizes(rows: list[dict[str, Any]], paper: dict[str, Any], report: Report) -> None:
    report.count("programs", len(rows), "files")
    shares = {}
    for name, some in (("", rows), (", with much data", _with_much_data(rows))):
        found = sizes(some)
        for key, count in found.items():
            report.count(f"{key}{name}", count, "bytes")
        shares[name] = round(found["store_bytes"] / found["whole_bytes"], 3)
        report.result.add(f"text_of_whole{name}", shares[name], "share", "counted")
        report.expect(f"texts alone take less NVRAM than whole files{name}",
                      shares[name] < paper["text_of_whole_share_below"])  # fmt: skip
    report.expect("more so where a program has much data", shares[", with much data"] < shares[""])


def _looks(guest: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All looks at a partition of which bytes may be lost."""
    for way in ("overwritten", "short"):
        for place in guest[way]:
            yield f"{way}, from byte {place['at']} on", place
    for way in ("reset", "reset, overwritten"):
        yield way, guest[way]


def _judge_copies(copies: dict[str, Any], report: Report) -> None:
    for name, (*_, wanted) in COPIES.items():
        started = {one["started"] for one in copies[name]["programs"].values()}
        report.result.add(f"copy {name}, a start", ", ".join(sorted(started)), "", "counted")
        does = "each program runs" if wanted == "same" else f"each start is refused, {wanted}"
        report.expect(f"a raw copy {name}: {does}", started == {wanted})
        if wanted != "same":
            named = all(any(f"/{program}: " in line for line in copies[name]["said"])
                        for program in copies[name]["programs"])  # fmt: skip
            report.expect(f"a raw copy {name}: the kernel's log names each program", named)


def _judge_lost(guest: dict[str, Any], report: Report) -> None:
    for way in ("overwritten", "short"):
        places = guest[way]
        report.count(f"{way}_places", len(places), "places")
        hit = sum(place["mounted"] and not _is_whole(place) for place in places)
        report.count(f"{way}_places_with_a_text", hit, "places")
        unmounted = sum(not place["mounted"] for place in places)
        report.count(f"{way}_places_not_mounted", unmounted, "places")
    texts = [one for place in guest["overwritten"] for one in place["programs"].values()
             if place["mounted"] and not one["text"]]  # fmt: skip
    report.count("texts_overwritten", len(texts), "texts")
    report.count("texts_refused", sum(one["started"] == "EBADMSG" for one in texts), "texts")
    report.expect("some places had a text, and some had none",
                  bool(texts) and any(map(_is_whole, guest["overwritten"])))  # fmt: skip
    wrong = {name: (missed(look), blamed(look)) for name, look in _looks(guest)}
    for name, (not_found, _) in wrong.items():
        if not_found:
            report.say(f"  {name}: not found in {', '.join(not_found)}")
    report.expect("each text that is not what it was is found, and does not start",
                  not any(not_found for not_found, _ in wrong.values()))  # fmt: skip
    report.expect("no whole program is called damaged",
                  not any(whole for _, whole in wrong.values()))  # fmt: skip
    report.expect("a reset alone changes no text", _is_whole(guest["reset"]))
    report.expect("what firmware overwrites at a reset was a text",
                  not _is_whole(guest["reset, overwritten"]))  # fmt: skip


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    _judge_sizes(raw["census"], paper, report)
    _judge_copies(raw["guest"]["copies"], report)
    _judge_lost(raw["guest"], report)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    names = {"whole files": ("whole_bytes", ""), "texts alone": ("store_bytes", "")}
    for place, rows in enumerate((raw["census"], _with_much_data(raw["census"]))):
        found = sizes(rows)
        whole = found["whole_bytes"]
        bars = [found[key] / whole for key, _ in names.values()]
        left.bar([n + place * 0.4 for n in range(len(names))], bars, 0.4,
                 label="all programs" if place == 0 else "a tenth of data or more")  # fmt: skip
    left.set_xticks([n + 0.2 for n in range(len(names))], list(names))
    left.set(ylabel="bytes in NVRAM, whole files = 1 (counted)")
    left.legend(frameon=False, fontsize=8)
    states = {"not mounted": 0, "a text is refused": 1, "each program runs": 2}
    at = [place["at"] / 2**20 for place in raw["guest"]["overwritten"]]
    seen = [0 if not place["mounted"] else 2 if _is_whole(place) else 1
            for place in raw["guest"]["overwritten"]]  # fmt: skip
    right.scatter(at, seen, s=8)
    right.set_yticks(list(states.values()), list(states))
    right.set(xlabel="MiB of the partition that is overwritten")
