# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Python views of format/*.h read the golden bytes as the C compiler wrote them.

Goal: header, C and Python agree. Method: the generator's output is compared with the golden files,
each field's offset with the compiler's, each value with the stored one.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab import format as fmt

GOLDEN = fmt.HEADER_DIR / "golden"
SEQUENCE = 0x01020305
HEADERS = (
    "rem_image.h", "rem_recording.h", "rem_pm.h", "rem_pm_block.h", "off2f.h", "rem_vm.h",
    "rem_keep.h", "rem_registry.h", "rem_redo.h",
)  # fmt: skip
STRUCTS = [
    name
    for header in HEADERS
    for name in re.findall(r"^struct (\w+) \{", (fmt.HEADER_DIR / header).read_text(), re.MULTILINE)
]


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def word(index: int) -> int:
    return int.from_bytes(bytes(0x11 + (index * 8 + i) % 0xE0 for i in range(8)), "little")


def test_golden_files_are_those_of_the_generator(tmp_path: Path) -> None:
    source = GOLDEN / "generate.c"
    flags = ["-std=c17", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-I", str(fmt.HEADER_DIR)]
    subprocess.run(["gcc", *flags, "-o", tmp_path / "generate", source], check=True)
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run([tmp_path / "generate", out], check=True)
    for made in out.iterdir():
        assert made.read_bytes() == golden(made.name), made.name
    kept = {p.name for p in GOLDEN.iterdir() if p.suffix in (".bin", ".txt")}
    assert kept == {p.name for p in out.iterdir()}


def test_layout_is_the_compilers() -> None:
    seen: dict[str, set[str]] = {}
    for line in golden("layout.txt").decode().splitlines():
        struct, field, offset, size = line.split()
        view = getattr(fmt.VIEWS, struct)
        if field == "-":
            assert len(view) == int(size), struct
            seen[struct] = set()
            continue
        seen[struct].add(field)
        assert view.fields[field].offset == int(offset), line
        assert len(view.fields[field].type) == int(size), line
    assert sorted(seen) == sorted(STRUCTS)
    for struct, fields in seen.items():
        assert fields == set(getattr(fmt.VIEWS, struct).fields), struct


def test_block_reads() -> None:
    block = fmt.parse_block(golden("block.bin"))
    assert block.block_bytes == fmt.CONST["REM_BLOCK_BYTES"]
    assert block.region_bytes == 1 << 30


def test_body_reads_and_its_commit_word_checks() -> None:
    raw = golden("body.bin")
    body = fmt.parse("rem_body", raw)
    assert body.magic == fmt.CONST["REM_BODY_MAGIC"]
    assert body.body_bytes == len(raw)
    assert body.header_crc == fmt.crc32c(raw[: fmt.CONST["REM_BODY_HEADER_CRC_BYTES"]])
    assert (body.entry_phys, body.entry_cr3, body.context_phys) == (word(8), word(9), word(10))
    assert (body.realtime_ns, body.boottime_ns, body.monotonic_ns) == (word(11), word(12), word(13))
    assert (body.tsc, body.stop_begin_tsc, body.tsc_khz) == (word(14), word(15), word(16))
    assert bytes(body.build_id) == bytes(range(0xA0, 0xB4))
    assert (body.key_counter, body.key_id, body.measured) == (word(31), word(32), word(33))
    assert bytes(body.mac) == bytes(range(0x30, 0x50))
    assert (body.text_pages, body.text_phys, body.text_counter) == (0x801, 0x100200000, word(35))
    assert (body.rodata_page, body.rodata_pages) == (0xA02, 0x1A3)
    assert (fmt.Policy(body.policy), body.hold_s) == (fmt.Policy.HOLD, 30)
    assert fmt.committed_sequence(golden("commit.bin"), raw) == SEQUENCE
    assert fmt.StopMode(body.stop_mode) is fmt.StopMode.DPM


def test_desc_entries_read() -> None:
    raw = golden("desc.bin")
    desc = fmt.parse("rem_desc", raw)
    assert (desc.magic, desc.count) == (fmt.CONST["REM_DESC_MAGIC"], 2)
    assert desc.crc == fmt.crc32c(raw[fmt.size_of("rem_desc") :])
    disk = fmt.parse("rem_desc_entry", raw[16 + 48 :])
    assert fmt.DescType(disk.type) is fmt.DescType.DISK
    assert (disk.index, disk.key) == (0x0102, 0x03040506)
    assert list(disk.value) == [word(3 + i) for i in range(5)]


def test_boot_note_reads() -> None:
    note = fmt.parse_boot_note(golden("boot_note.bin"))
    assert fmt.BootReason(note.reason) is fmt.BootReason.COLD_DISK_DIFFERS
    assert (note.sequence, note.slot, note.charge, note.nvdimm) == (SEQUENCE, 1, 0x87, 0xA5)
    assert (note.entry_tsc, note.ready_tsc, note.leave_tsc) == (word(17), word(18), word(19))
    assert note.expected.type == fmt.DescType.DISK
    assert note.found.value[2] == word(2)
    assert fmt.BootReason(note.held) is fmt.BootReason.COLD_PCI_DIFFERS


def test_trust_and_key_read() -> None:
    raw = golden("trust.bin")
    trust = fmt.parse("rem_trust", raw)
    assert trust.magic == fmt.CONST["REM_TRUST_MAGIC"]
    assert fmt.VIEWS.rem_trust_state(trust.state) is fmt.VIEWS.rem_trust_state.REM_TRUST_ON
    assert (trust.key_counter, trust.key_id, trust.measured) == (word(31), word(32), word(33))
    assert (trust.key_phys, trust.tpm_ticks) == (0x1003000, word(34))
    assert trust.crc == fmt.crc32c(raw[:60])
    key = fmt.parse("rem_key", golden("key.bin"))
    assert (key.magic, key.key_counter) == (fmt.CONST["REM_KEY_MAGIC"], word(31))
    assert bytes(key.key) == bytes(range(0x60, 0x80))
    assert list(key.text_key) == [word(40 + i) for i in range(66)]
    assert (key.text_counter, list(key.text_sum)) == (word(35), [word(36), word(37), word(38)])


def test_event_and_handover_read() -> None:
    raw = golden("event.bin")
    event = fmt.parse("rem_event", raw)
    assert (event.sequence, event.cpu, event.tsc, event.value) == (SEQUENCE, 3, word(20), word(21))
    assert event.crc == fmt.crc32c(raw[:28])
    handover = fmt.parse("rem_handover", golden("handover.bin"))
    assert (handover.region_phys, handover.region_bytes) == (1 << 32, 1 << 30)


def test_stamp_of_a_range_reads() -> None:
    raw = golden("range_stamp.bin")
    stamp = fmt.parse("rem_range_stamp", raw)
    assert stamp.magic == fmt.CONST["REM_RANGE_MAGIC"]
    assert (stamp.count, stamp.nonce) == (3, word(30))
    assert stamp.crc == fmt.crc32c(raw[:60])


def test_record_of_a_virtual_machine_reads() -> None:
    raw = golden("vm_record.bin")
    assert len(raw) == fmt.CONST["REM_VM_BYTES"]
    header = fmt.parse("rem_vm_header", raw[: fmt.size_of("rem_vm_header")])
    assert (header.magic, header.version) == (fmt.CONST["REM_VM_MAGIC"], 1)
    assert header.crc == fmt.crc32c(raw[:60])
    slot = fmt.CONST["REM_VM_SLOT_BYTES"]  # the sequence is odd
    at = fmt.CONST["REM_VM_BODY_OFFSET"] + slot
    whole = raw[at : at + fmt.size_of("rem_vm_body")]
    body = fmt.parse("rem_vm_body", whole)
    assert (body.sequence, body.state_bytes, body.save_ns) == (SEQUENCE, word(60), word(63))
    at = fmt.CONST["REM_VM_COMMIT_OFFSET"] + slot
    assert fmt.committed_sequence(raw[at : at + 8], whole) == SEQUENCE
    tail = fmt.parse("rem_vm_tail", golden("vm_tail.bin"))
    assert bytes(tail.id) == bytes(body.ram_id) == bytes(range(0x31, 0x41))


def test_table_of_kept_programs_reads() -> None:
    raw = golden("keep_table.bin")
    size = fmt.size_of("rem_keep_entry")
    entries = [fmt.parse("rem_keep_entry", raw[at : at + size]) for at in range(0, len(raw), size)]
    assert [entry.vaddr for entry in entries] == [0x7F0102030000, 0x7F0102031000]
    assert [(entry.frame, entry.pid) for entry in entries] == [(0x405, 20001), (0x102, 20001)]


def test_registry_reads() -> None:
    head = fmt.parse("rem_registry", golden("registry_head.bin"))
    assert (head.files, head.pages, head.bytes) == (256, 4000, 16 << 20)
    assert head.redo_bytes == 1 << 16
    policy = fmt.parse("rem_registry_policy", golden("registry_policy.bin"))
    assert policy.in_caches == fmt.CONST["REM_REGISTRY_IN_CACHES"]
    file = fmt.parse("rem_registry_file", golden("registry_file.bin"))
    assert (file.mode, file.mtime_s, bytes(file.handle)[:8]) == (
        0o100640, 0x31323334, bytes(range(0xB0, 0xB8)),
    )  # fmt: skip
    page = fmt.parse("rem_registry_page", golden("registry_page.bin"))
    assert (page.id, page.phys, page.saved) == (
        file.id,
        0x123456000,
        fmt.CONST["REM_REGISTRY_SAVED"],
    )


def test_redo_area_reads() -> None:
    disk = fmt.parse("rem_redo_disk", golden("redo_disk.bin"))
    assert (disk.slots, disk.offset) == (0x1112, 0x3000)
    assert bytes(disk.identity).rstrip(b"\0") == b"virtio rem-root"
    word = fmt.parse("rem_redo_word", golden("redo_word.bin"))
    assert (word.id, word.position) == (disk.id, 0x3132333435363738)
    slot = fmt.parse("rem_redo_slot", golden("redo_slot.bin"))
    assert (slot.id, slot.bytes, slot.dropped) == (
        disk.id,
        0xE00,
        fmt.CONST["REM_REDO_DROPPED"],
    )
    for view, raw in ((disk, "redo_disk"), (word, "redo_word"), (slot, "redo_slot")):
        offset = type(view).fields["crc"].offset
        assert view.crc == fmt.crc32c(golden(f"{raw}.bin")[:offset])


def test_consumed_word_checks() -> None:
    assert fmt.consumed_sequence(golden("consumed.bin")) == SEQUENCE


@pytest.mark.parametrize("bit", range(64))
def test_word_with_any_bit_flipped_never_checks(bit: int) -> None:
    def flipped(name: str) -> bytes:
        value = int.from_bytes(golden(name), "little") ^ 1 << bit
        return value.to_bytes(8, "little")

    with pytest.raises(fmt.FormatError):
        fmt.consumed_sequence(flipped("consumed.bin"))
    with pytest.raises(fmt.FormatError):
        fmt.committed_sequence(flipped("commit.bin"), golden("body.bin"))


def test_zeros_and_ones_are_never_valid() -> None:
    for fill in (b"\0", b"\xff"):
        for parse in (fmt.consumed_sequence, fmt.parse_block, fmt.parse_boot_note):
            with pytest.raises(fmt.FormatError):
                parse(fill * 4096)
    with pytest.raises(fmt.FormatError):
        fmt.committed_sequence(b"\xff" * 8, golden("body.bin"))
    assert fmt.committed_sequence(bytes(8), golden("body.bin")) is None


def test_recording_header_reads() -> None:
    raw = golden("recording.bin")
    header = fmt.parse("rem_rec_header", raw)
    assert header.magic == fmt.CONST["REM_REC_MAGIC"]
    assert header.crc == fmt.crc32c(raw[: fmt.size_of("rem_rec_header") - 4])
    assert (header.base_digest, header.seed) == (word(22), word(23))
    assert fmt.RecDomain(header.domain) is fmt.RecDomain.ADR
    assert bytes(header.profile).rstrip(b"\0") == b"golden"


def test_recording_holds_each_kind_of_event_once() -> None:
    raw = golden("recording.bin")[fmt.size_of("rem_rec_header") :]
    kinds = []
    while len(raw) >= fmt.size_of("rem_rec_event"):
        event = fmt.parse("rem_rec_event", raw)
        kinds.append(fmt.RecKind(event.kind))
        assert event.payload_bytes <= fmt.CONST["REM_REC_PAYLOAD_MAX"]
        raw = raw[fmt.size_of("rem_rec_event") + (event.payload_bytes + 7) // 8 * 8 :]
    assert kinds == list(fmt.RecKind)
    assert raw == b"\1"  # the event that was not finished


def test_segment_of_a_region_reads() -> None:
    segment = fmt.parse("rem_pm_segment", golden("pm_segment.bin"))
    assert fmt.PmType(segment.type) is fmt.PmType.BLOCK
    assert bytes(segment.name).rstrip(b"\0") == b"golden"
    assert (segment.bytes, segment.extent_bytes) == (0x12345, 0x13000)


def test_header_of_a_program_of_two_files_reads() -> None:
    raw = golden("off2f_header.bin")
    header = fmt.parse("off2f_header", raw)
    assert (header.magic, header.header_bytes) == (fmt.CONST["OFF2F_MAGIC"], len(raw))
    assert header.crc == fmt.crc32c(raw[:12] + bytes(4) + raw[16:])
    assert raw[-header.path_bytes :] == b"/nvm/golden\0"
    end = fmt.parse("off2f_xyz", golden("off2f_xyz.bin"))
    assert end.xyz_bytes == header.xyz_bytes
    assert bytes(end.text_sha256) == bytes(header.text_sha256)
    assert end.crc == fmt.crc32c(golden("off2f_xyz.bin")[:-4])


def test_truncated_struct_is_a_format_error() -> None:
    with pytest.raises(fmt.FormatError, match="159 bytes given, 160 needed"):
        fmt.parse_boot_note(golden("boot_note.bin")[:-1])


def test_wire_bytes_are_the_compilers() -> None:
    wire = golden("pwr.bin")
    for low in range(64):
        status = fmt.pwr_status(bool(low & 1), low >> 1 & 3, low >> 3)
        assert status == wire[2 * low]
        assert fmt.pwr_echo(status) == wire[2 * low + 1]
        assert status.bit_count() % 2 == fmt.pwr_echo(status).bit_count() % 2 == 0


def test_stopped_byte_is_only_the_echo_of_a_status_never_sent() -> None:
    stopped = fmt.CONST["REM_PWR_STOPPED"]
    assert stopped.bit_count() % 2 == 0
    same = [low for low in range(64) if golden("pwr.bin")[2 * low + 1] == stopped]
    assert same == [0b111110]  # sequence 7, charge 3, PWR_OK clear
