# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Views of format/*.h: structs, constants and enums, parsed from the headers when first imported.

The headers are the only definition of every byte that outlives power; nothing here repeats an
offset or a number of theirs. Only the checksums are added, which the headers describe in prose.

    from lab import format as fmt
    note = fmt.parse("rem_boot_note", raw_bytes)
    fmt.CONST["REM_NOTE_OFFSET"]; fmt.BootReason(note.reason).name
"""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path
from typing import Any

import crc32c as _crc32c
from dissect.cstruct import cstruct

HEADER_DIR = Path(__file__).resolve().parent.parent / "format"
HEADERS = (
    "rem_image.h",
    "rem_pwr.h",
    "rem_fwcfg.h",
    "rem_plugin_ctl.h",
    "rem_recording.h",
    "rem_writers.h",
    "rem_trace.h",
    "rem_pm.h",
    "rem_pm_block.h",
    "rem_nvdimm.h",
    "off2f.h",
    "rem_vm.h",
    "rem_keep.h",
    "rem_registry.h",
    "rem_redo.h",
)


class FormatError(ValueError):
    """Bytes that are not what they should be; the message names the check that failed."""


def preprocess(text: str) -> str:
    """Keep what a struct parser can read: the host's side of #ifdef __KERNEL__, no assertions."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"static_assert\s*\(.*?\)\s*;", "", text, flags=re.DOTALL)
    # The formatter may break a line after `=`; the parser would take the number for a name.
    text = re.sub(r"=\s*\n\s*", "= ", text)
    kept: list[str] = []
    keep = [True]
    for line in text.splitlines():
        word = line.split()
        if word[:1] == ["#ifdef"]:
            keep.append(keep[-1] and word[1] != "__KERNEL__")
        elif word[:1] == ["#ifndef"]:
            keep.append(keep[-1])
        elif word[:1] == ["#else"]:
            keep[-1] = keep[-2] and not keep[-1]
        elif word[:1] == ["#endif"]:
            keep.pop()
        elif not keep[-1] or word[:1] == ["#include"]:
            continue
        elif word[:1] == ["#define"] and len(word) == 2:
            continue  # an include guard
        else:
            kept.append(line)
    if keep != [True]:
        raise FormatError("unbalanced #if in a format header")
    return "\n".join(kept) + "\n"


def _load() -> cstruct:
    views = cstruct(endian="<")
    for name in HEADERS:
        views.load(preprocess((HEADER_DIR / name).read_text(encoding="utf-8")))
    return views


VIEWS = _load()
CONST: dict[str, Any] = dict(VIEWS.consts)


def _enum(name: str, c_name: str, prefixes: tuple[str, ...]) -> Any:
    """An IntEnum of a C enum, without the prefix that all names share."""
    members = {}
    for key, member in getattr(VIEWS, c_name).__members__.items():
        prefix = next((p for p in prefixes if key.startswith(p)), "")
        members[key.removeprefix(prefix)] = int(member)
    return IntEnum(name, members)


BootReason = _enum("BootReason", "rem_boot_reason", ("REM_BOOT_", "REM_"))
StopReason = _enum("StopReason", "rem_stop_reason", ("REM_STOP_",))
StopMode = _enum("StopMode", "rem_stop_mode", ("REM_MODE_",))
Policy = _enum("Policy", "rem_policy", ("REM_POLICY_",))
EventType = _enum("EventType", "rem_event_type", ("REM_EVENT_",))
DescType = _enum("DescType", "rem_desc_type", ("REM_DESC_",))
RecKind = _enum("RecKind", "rem_rec_kind", ("REM_REC_",))
RecDomain = _enum("RecDomain", "rem_rec_domain", ("REM_REC_DOMAIN_",))
PmType = _enum("PmType", "rem_pm_type", ("REM_PM_",))
TraceKind = _enum("TraceKind", "rem_trace_kind", ("REM_TRACE_",))
Charge = _enum("Charge", "rem_pwr_charge", ("REM_CHARGE_",))


def crc32c(data: bytes) -> int:
    """CRC32C (Castagnoli) as the headers define it."""
    return int(_crc32c.crc32c(data))


def size_of(struct: str) -> int:
    return len(getattr(VIEWS, struct))


def parse(struct: str, data: bytes) -> Any:
    """One struct from the start of *data*; too few bytes is a FormatError, never an EOFError."""
    need = size_of(struct)
    if len(data) < need:
        raise FormatError(f"{struct}: {len(data)} bytes given, {need} needed")
    return getattr(VIEWS, struct)(data[:need])


def _u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def consumed_check(sequence: int) -> int:
    return crc32c(_u32(CONST["REM_WORD_CONSUMED"], sequence))


def commit_check(sequence: int, body_crc: int) -> int:
    return crc32c(_u32(CONST["REM_WORD_COMMIT"], sequence, body_crc))


def consumed_sequence(word: bytes) -> int:
    """The sequence in a consumed word; FormatError if it does not check."""
    view = parse("rem_word", word)
    if view.check != consumed_check(view.sequence):
        raise FormatError(f"consumed word does not check: {word[:8].hex()}")
    return int(view.sequence)


def committed_sequence(word: bytes, body: bytes) -> int | None:
    """The sequence that a commit word commits *body* with; None if it is zero: no image."""
    if word[:8] == bytes(8):
        return None
    view = parse("rem_word", word)
    if view.sequence == 0 or view.check != commit_check(view.sequence, crc32c(body)):
        raise FormatError(f"commit word does not check: {word[:8].hex()}")
    return int(view.sequence)


def _checked(struct: str, data: bytes, magic: str) -> Any:
    """A struct with magic, version and a CRC of everything before its field `crc`."""
    view = parse(struct, data)
    if view.magic != CONST[magic]:
        raise FormatError(f"{struct}: magic is {view.magic:#x}")
    if view.version != CONST["REM_VERSION"]:
        raise FormatError(f"{struct}: version {view.version}, known is {CONST['REM_VERSION']}")
    if view.crc != crc32c(data[: getattr(VIEWS, struct).fields["crc"].offset]):
        raise FormatError(f"{struct}: checksum is wrong")
    return view


def parse_block(data: bytes) -> Any:
    return _checked("rem_block", data, "REM_BLOCK_MAGIC")


def parse_boot_note(data: bytes) -> Any:
    return _checked("rem_boot_note", data, "REM_NOTE_MAGIC")


def parity(status: int) -> int:
    """*status* with REM_PWR_PARITY set so that the number of ones is even."""
    low: int = status & ~CONST["REM_PWR_PARITY"] & 0xFF
    return low | (int(CONST["REM_PWR_PARITY"]) if low.bit_count() % 2 else 0)


def pwr_status(power_ok: bool, charge: int, sequence: int) -> int:
    """A status byte of the supply."""
    return parity(
        (CONST["REM_PWR_OK"] if power_ok else 0)
        | (charge << CONST["REM_PWR_CHARGE_SHIFT"]) & CONST["REM_PWR_CHARGE_MASK"]
        | (sequence << CONST["REM_PWR_SEQUENCE_SHIFT"]) & CONST["REM_PWR_SEQUENCE_MASK"]
    )


def pwr_echo(status: int) -> int:
    """The echo that acknowledges a status byte."""
    return parity(status | CONST["REM_PWR_FROM_MACHINE"])
