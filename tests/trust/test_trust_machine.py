# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a guest with a TPM outlives power failures as without; what its Stop has left cannot be
changed or put back later, and the key that protects it is on no medium.

Method: guests with swtpm, which is killed with them. Media are changed between a cut and the boot
that follows. DRAM is a file, from which the test, and nobody else, takes the key.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lab.machine import Machine
from lab.machine.config import StopModeName
from lab.machine.tpm import TPM_MODELS, TpmModel
from lab.setup.loader import Loader
from lab.setup.products import Kernel, need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config, with_uefi
from lab.testbed.planted import plant
from lab.verdict import BrokenError
from tests.support.claims import BOOT_LIMIT_S, GO_LIMIT_S, booted, machine_name, warnings
from tests.support.gdb_remote import Gdb
from tests.support.proofs import must_be_found
from tests.trust.attacker import Attacker
from tests.trust.guest import STATUS, TRUST, boots_cold, guest, lives, media, stop
from tests.trust.images import key_in, key_page_in

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(900)]
SEARCHED_BYTES = 16 << 20  # at once


@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_guest_outlives_power_failures(cpus: int) -> None:
    with guest("trust", cpus) as machine:
        counters = []
        for _ in range(5):
            cut_and_resume(machine)
            lives(machine)
            counters.append(int(machine.run_in_guest(TRUST).stdout.split()[2]))
        assert counters == list(range(counters[0], counters[0] + 5))
        assert warnings(machine) == []


@pytest.mark.soak
@pytest.mark.parametrize("cpus", [1, 2, 4])
@pytest.mark.parametrize("model", TPM_MODELS)
def test_guest_outlives_25_power_failures(cpus: int, model: TpmModel) -> None:
    with guest("trust-25", cpus, tpm=model) as machine:
        for _ in range(25):
            cut_and_resume(machine)
            lives(machine)
        assert warnings(machine) == []


@pytest.mark.parametrize("mode", ["dpm", "sng"])
def test_portable_paths_are_authenticated_too(mode: StopModeName) -> None:
    with guest(f"trust-{mode}", 2, mode) as machine:
        for _ in range(2):
            cut_and_resume(machine)
            lives(machine)


def test_dram_as_a_cache_leaves_the_page_of_the_key_alone() -> None:
    with guest("trust-mixed", 2, memtype="mixed") as machine:
        for _ in range(3):
            cut_and_resume(machine)
            lives(machine)


def test_context_that_was_changed_is_not_entered() -> None:
    with guest("trust-forged") as machine:
        sequence = stop(machine)
        at, _ = media(machine).contexts_at(sequence)
        media(machine).flip(at)  # the stack pointer of the first CPU
        boots_cold(machine, "FORGED")


def test_memory_of_an_earlier_stop_is_not_entered(tmp_path: Path) -> None:
    with guest("trust-replay") as machine:
        stop(machine)
        nvram = machine.files.nvram(machine.config)
        copy = nvram.with_suffix(".replay")
        try:
            shutil.copyfile(nvram, copy)
            machine.resume()
            machine.wait_resumed(GO_LIMIT_S)
            lives(machine)
            stop(machine)
            copy.replace(nvram)
        finally:
            copy.unlink(missing_ok=True)
        boots_cold(machine, "REPLAYED")


def test_memory_without_its_tpm_is_not_entered() -> None:
    with guest("trust-tpm") as machine:
        stop(machine)
        assert machine.tpm is not None
        machine.tpm.clear()
        boots_cold(machine, "TPM_DIFFERS")


def find_any(path: Path, secrets: list[bytes]) -> int:
    """The place in a file of one of them, or -1. In one pass, as media are large."""
    before, kept = 0, b""
    with path.open("rb") as file:
        while part := file.read(SEARCHED_BYTES):
            data = kept + part
            found = [at for at in map(data.find, secrets) if at >= 0]
            if found:
                return before + min(found)
            kept = data[-max(map(len, secrets)) :]
            before += len(data) - len(kept)
    return -1


def find(path: Path, what: bytes) -> int:
    """Its place in a file, or -1."""
    return find_any(path, [what])


def check_key_is_on_no_medium(machine: Machine, dram: Path) -> None:
    """Inner check of a power failure: no half of the key, and no word of the sum of text or of its
    key, is where it survives, nor in DRAM, which may keep its content for a moment."""
    nvram = media(machine)
    page = key_page_in(dram, nvram.trust())
    key, total, by = bytes(page.key), page.text_sum[0], page.text_key
    words = [total, by[0], by[1], by[2], by[len(by) - 1]]  # r, and of k the first and the last
    assert find(dram, key) == nvram.trust().key_phys + 16
    assert all(find(dram, word.to_bytes(8, "little")) >= 0 for word in words)
    stop(machine)
    secrets = [key[:16], key[16:], *(word.to_bytes(8, "little") for word in words)]
    for path in (nvram.path, machine.files.disk, dram):
        at = find_any(path, secrets)
        if at >= 0:
            raise BrokenError("key-on-media", f"{path.name} has a part of the key at {at:#x}")


def test_key_is_on_no_medium(tmp_path: Path) -> None:
    dram = tmp_path / "dram"
    with guest("trust-key", dram_file=dram) as machine:
        for _ in range(2):
            check_key_is_on_no_medium(machine, dram)
            machine.resume()
            machine.wait_resumed(GO_LIMIT_S)


def test_key_that_is_kept_in_memory_is_found(tmp_path: Path) -> None:
    dram, kernel = tmp_path / "dram", need(Kernel("mutants")).bz_image
    with guest("trust-copy", kernel=kernel, dram_file=dram) as machine:
        plant(machine, "key-in-memory")
        cut_and_resume(machine)
        with must_be_found("key-in-memory"):
            check_key_is_on_no_medium(machine, dram)


def test_context_that_is_not_authenticated_is_found() -> None:
    kernel = need(Kernel("mutants")).bz_image
    with guest("trust-skip", kernel=kernel) as machine:
        cut_and_resume(machine)
        plant(machine, "skip-context-mac")
        stop(machine)
        machine.resume()
        with must_be_found("skip-context-mac"):
            machine.wait_resumed(GO_LIMIT_S)


def check_kernel_gets_no_key(machine: Machine, dram: Path) -> None:
    """Inner check: the kernel asks the TPM as the loader did, and gets another key, or none."""
    trust = media(machine).trust()
    with Gdb(machine) as gdb:
        given = Attacker(gdb).key(b"REMI", trust.key_counter)
    if given == key_in(dram, trust):
        raise BrokenError("key-given", "the TPM gives the key of this boot to the kernel")


@pytest.mark.parametrize("mutant", [None, "tpm-left-open"])
def test_tpm_gives_the_key_to_no_kernel(tmp_path: Path, mutant: str | None) -> None:
    dram = tmp_path / "dram"
    config = make_config(machine_name("trust-kernel"), 1, "fast")
    config = replace(config, tpm="crb", dram_file=dram, loader=need(Loader(mutants=True)))
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot(mutant=mutant)
        machine.wait_up(BOOT_LIMIT_S)
        if mutant is None:
            check_kernel_gets_no_key(machine, dram)
            return
        with must_be_found("tpm-left-open"):
            check_kernel_gets_no_key(machine, dram)


def test_authentication_can_be_switched_off() -> None:
    """And what is older than that boot is not entered after it."""
    with booted("trust-off", 1, "fast", tpm="crb") as machine:
        stop(machine)
        nvram = machine.files.nvram(machine.config)
        copy, with_trust = nvram.with_suffix(".replay"), machine.config
        try:
            shutil.copyfile(nvram, copy)
            machine.config = replace(with_trust, cmdline_extra="remanence.trust=off")
            machine.resume(cold=True)
            machine.wait_up(BOOT_LIMIT_S)
            assert machine.run_in_guest(TRUST).stdout == "off\n"
            assert machine.run_in_guest(STATUS).stdout == "armed\n"
            cut_and_resume(machine)
            stop(machine)
            copy.replace(nvram)
        finally:
            copy.unlink(missing_ok=True)
        machine.config = with_trust
        machine.resume()
        assert machine.wait_boot_note().reason == "COLD_REPLAYED"


def test_under_secure_boot_nothing_is_promised_without_a_tpm() -> None:
    """Nor does the word change that which switches authentication off."""
    config = with_uefi(make_config(machine_name("no-tpm"), 1, "fast"), secure=True)
    config = replace(config, cmdline_extra="remanence.trust=off")
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        assert machine.run_in_guest(STATUS).stdout.startswith("refused: no TPM gives a key")
        assert machine.run_in_guest(TRUST).stdout.startswith("no-key")
