# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: with a TPM the loader enters only images that a kernel of the boot before has
authenticated; every other has its reason.

Method: the small machine with swtpm, which is killed with it. Images are made by build-record and
authenticated here, with the key that the loader left in DRAM; then one thing is changed, with all
checksums right, as somebody could who has memory, disk or TPM in hand while the power is off.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.machine.tpm import TPM_MODELS, TpmModel
from lab.setup.loader import Loader
from lab.setup.products import need
from lab.verdict import BrokenError
from tests.support.proofs import must_be_found
from tests.trust.images import (
    MAC,
    PAGE_BYTES,
    RODATA_PAGE,
    RODATA_PAGES,
    TEXT_AT,
    TEXT_PAGES,
    field,
    number,
)
from tests.trust.machine import DirectMachine, TrustSecure, TrustUefi, WithTpm
from tests.uefi.machine import check_nothing_writes

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(1200)]

HOLD = 2  # enum rem_policy
OFF, ON, NO_KEY = 1, 2, 3  # enum rem_trust_state


@pytest.mark.parametrize("model", TPM_MODELS)
def test_image_of_a_stop_is_entered(machine: DirectMachine, model: TpmModel) -> None:
    machine.model = model
    assert machine.decision() == "no-block"
    for sequence in range(7, 10):
        machine.put_authentic(sequence, sequence - 1)
        assert machine.decision() == "resume"


def test_sum_of_text_is_handed_on(machine: DirectMachine) -> None:
    """The kernel that goes on has the sum, and the key of sums that it had; a new one has not."""
    machine.run()
    for sequence in range(7, 10):
        machine.put_authentic(sequence, sequence - 1)
        before = machine.key_page()
        total = machine.media.text_sum(sequence, list(before.text_key))
        assert machine.decision() == "resume"
        after = machine.key_page()
        assert after.key_counter == before.key_counter + 1
        assert (after.text_counter, list(after.text_key)) == (
            before.text_counter,
            list(before.text_key),
        )
        assert number(after.text_sum) == total
    machine.run()
    new = machine.key_page()
    assert new.text_counter == new.key_counter
    assert list(new.text_key) != list(before.text_key)
    assert list(new.text_sum) == [0, 0, 0]


def test_image_whose_text_is_trusted_is_entered(machine: DirectMachine) -> None:
    machine.run()
    machine.put_authentic(7, 6, text=False)
    machine.media.flip(TEXT_AT)
    assert machine.decision() == "resume"
    assert machine.key_page().text_counter == 0


def test_each_boot_has_a_key_of_its_own(machine: DirectMachine) -> None:
    counters, keys = [], []
    for _ in range(3):
        machine.run()
        trust = machine.media.trust()
        assert trust.state == ON
        counters.append(trust.key_counter)
        keys.append(machine.key())
    assert counters == sorted(set(counters))
    assert len(set(keys)) == 3


def header(machine: WithTpm) -> None:
    machine.media.flip(machine.media.body_at(7) + field("entry_phys")[0])


def reason_of_the_stop(machine: WithTpm) -> None:
    at = machine.media.body_at(7) + field("stop_reason")[0]
    machine.media.write(at, (2).to_bytes(4, "little"))


def clock(machine: WithTpm) -> None:
    machine.media.flip(machine.media.body_at(7) + field("realtime_ns")[0])


def key_page(machine: WithTpm) -> None:
    machine.media.flip(machine.media.body_at(7) + field("key_phys")[0] + 1)


def context(machine: WithTpm) -> None:
    machine.media.flip(machine.media.contexts_at(7)[0])


def end_of_contexts(machine: WithTpm) -> None:
    at, size = machine.media.contexts_at(7)
    machine.media.flip(at + size - 1)


def mac(machine: WithTpm) -> None:
    machine.media.flip(machine.media.body_at(7) + MAC + 31)


def text(machine: WithTpm) -> None:
    machine.media.flip(TEXT_AT)


def end_of_text(machine: WithTpm) -> None:
    machine.media.flip(TEXT_AT + TEXT_PAGES * PAGE_BYTES - 1)


def read_only_data(machine: WithTpm) -> None:
    machine.media.flip(TEXT_AT + RODATA_PAGE * PAGE_BYTES)


def end_of_read_only_data(machine: WithTpm) -> None:
    machine.media.flip(TEXT_AT + (RODATA_PAGE + RODATA_PAGES) * PAGE_BYTES - 1)


def policy_of_text(machine: WithTpm) -> None:
    """As if this kernel's text were trusted."""
    for name in ("text_phys", "text_pages", "text_counter", "rodata_page", "rodata_pages"):
        at, size = field(name)
        machine.media.write(machine.media.body_at(7) + at, bytes(size))


FORGERIES = [
    header, reason_of_the_stop, clock, key_page, context, end_of_contexts, mac, text, end_of_text,
    read_only_data, end_of_read_only_data, policy_of_text,
]  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES)
def test_forged_image_is_refused(machine: DirectMachine, forge: Callable[[WithTpm], None]) -> None:
    machine.run()
    machine.put_authentic(7, 6)
    forge(machine)
    machine.media.commit(7)
    assert machine.decision() == "forged"
    assert machine.consumed() == 7


def test_image_without_a_mac_is_refused(machine: DirectMachine) -> None:
    machine.run()
    machine.put_image(7, 6)
    assert machine.decision() == "not-authenticated"


def test_image_of_the_boot_before_the_last_is_refused(machine: DirectMachine) -> None:
    """Also if nobody has entered it since."""
    machine.run()
    machine.put_authentic(7, 6)
    with machine.media_of_before():
        assert machine.decision() == "resume"
    assert machine.decision() == "replayed"
    machine.put_authentic(9, 8)
    with machine.media_of_before():
        machine.put_image(9, 8)
        assert machine.decision() == "not-authenticated"
    assert machine.decision() == "replayed"


def test_memory_of_another_machine_is_refused(machine: DirectMachine) -> None:
    machine.run()
    machine.put_authentic(7, 6)
    machine.tpm.clear()
    assert machine.decision() == "tpm-differs"


def test_machine_without_its_tpm_enters_no_authenticated_image(machine: DirectMachine) -> None:
    machine.run()
    machine.put_authentic(7, 6)
    # Its ACPI table goes with it: the machine differs, which is a reason before.
    machine.model = None
    assert machine.decision() == "acpi-differs"


def test_image_is_held_until_its_tpm_is_back(machine: DirectMachine) -> None:
    machine.run()
    machine.put_authentic(7, 6, policy=HOLD, hold_s=60)
    kept = machine.tpm.folder.rename(machine.tpm.folder.with_name("taken-out"))
    with machine.running() as running:
        running.wait("hold 41 tpm-differs")
    assert machine.consumed() == 6
    for path in machine.tpm.folder.iterdir():
        path.unlink()
    machine.tpm.folder.rmdir()
    kept.rename(machine.tpm.folder)
    assert machine.decision() == "resume"


def test_another_loader_gets_another_key(uefi: TrustUefi) -> None:
    """Firmware measures it: here a loader with planted bugs, of which none is on."""
    uefi.settle()
    uefi.put_authentic(7, 6)
    assert uefi.decision() == "resume"
    uefi.put_authentic(9, 8)
    usual, uefi.loader = uefi.loader, need(Loader(mutants=True))
    assert uefi.decision() == "measured-differs"
    uefi.put_authentic(11, 10)
    uefi.loader = usual
    assert uefi.decision() == "measured-differs"


def test_signed_loader_enters_an_authentic_image(secure: TrustSecure) -> None:
    secure.settle()
    secure.put_authentic(7, 6)
    text = secure.run()
    assert "GO: resume sequence 7" in text
    check_nothing_writes(text)


def test_without_a_tpm_secure_boot_enters_no_image(secure: TrustSecure) -> None:
    secure.model = None
    secure.settle()
    assert secure.media.trust().state == NO_KEY
    secure.put_image(9, 8)
    assert secure.decision() == "not-authenticated"


def test_machine_without_a_tpm_is_as_before(machine: DirectMachine) -> None:
    machine.model = None
    machine.run()
    assert machine.media.trust().state == OFF
    machine.put_image(7, 6)
    assert machine.decision() == "resume"


# Planted bugs.


def check_forged_is_refused(machine: DirectMachine) -> None:
    """Inner check."""
    machine.run()
    machine.put_authentic(7, 6)
    context(machine)
    if machine.decision() == "resume":
        raise BrokenError("forged-entered", "an image with another context is entered")


def check_forged_text_is_refused(machine: DirectMachine) -> None:
    """Inner check."""
    machine.run()
    machine.put_authentic(7, 6)
    text(machine)
    if machine.decision() == "resume":
        raise BrokenError("forged-entered", "an image with other text is entered")


def check_replayed_is_refused(machine: DirectMachine) -> None:
    """Inner check."""
    machine.run()
    machine.put_authentic(7, 6)
    with machine.media_of_before():
        machine.run()
    if machine.decision() == "resume":
        raise BrokenError("forged-entered", "memory of an earlier time is entered")


CHECKS = {
    "enter-forged": check_forged_is_refused,
    "text-unjudged": check_forged_text_is_refused,
    "count-never": check_replayed_is_refused,
}


@pytest.mark.parametrize("name", CHECKS)
def test_planted_bug_is_found(planted: DirectMachine, name: str) -> None:
    CHECKS[name](planted)
    planted.mutant = name
    with must_be_found(name):
        CHECKS[name](planted)
