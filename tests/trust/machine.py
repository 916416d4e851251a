# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The small machine of the loader's tests with a TPM, and DRAM that can be read later."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.machine.tpm import Tpm, TpmModel, qemu_arguments
from loader.host.small import REGION_PHYS, Machine, Running
from tests.trust.images import Nvram, key_in, key_page_in
from tests.uefi.machine import SecureMachine, UefiMachine

DECISION = re.compile(r"GO: (?:cold \d+ (\S+)|(resume)) sequence")


def decision_of(text: str) -> str:
    """By what a boot has printed."""
    found = DECISION.search(text)
    assert found, text
    return str(found[1] or found[2])


class WithTpm(Machine):
    """A TPM for any of the small machines, if *model* is not None."""

    model: TpmModel | None = "crb"
    mutant: str | None = None

    def __init__(self, folder: Path, *rest: Any) -> None:
        super().__init__(folder, *rest)
        self.tpm = Tpm(folder / "tpm")
        self.dram = folder / "dram"
        self.media = Nvram(self.nvram, REGION_PHYS)

    def firmware(self) -> list[str]:
        if self.mutant is None or isinstance(self, UefiMachine):
            return super().firmware()
        return [*super().firmware(), "-fw_cfg", f"name=opt/remanence/mutant,string={self.mutant}"]

    def command(self) -> list[str]:
        backend = f"memory-backend-file,id=dram,share=on,mem-path={self.dram}"
        self.dram.unlink(missing_ok=True)  # it does not survive the power
        words = ["-object", f"{backend},size={self.dram_mib}M", "-machine", "memory-backend=dram"]
        if self.model is not None:
            words += qemu_arguments(self.model, f"fd={self.fds[0]}")
        return super().command() + words

    @contextmanager
    def powered(self) -> Iterator[None]:
        """The TPM's power."""
        if self.model is None:
            yield
            return
        with self.tpm.power_on() as wire:
            self.fds = (wire.fileno(),)
            try:
                yield
            finally:
                self.fds = ()
                self.tpm.power_off()

    def run(self, bound_s: float | None = None) -> str:
        with self.powered():
            return super().run(bound_s)

    @contextmanager
    def running(self) -> Iterator[Running]:
        with self.powered(), super().running() as running:
            yield running

    def settle(self) -> None:
        """The first boot: firmware finds out how much memory of each type it needs, and at the next
        one its tables are elsewhere."""
        self.run()
        self.run()

    def decision(self) -> str:
        """Of a boot: "resume", or why not."""
        return decision_of(self.run())

    def key(self) -> bytes:
        """Of the last boot, as its kernel got it."""
        return key_in(self.dram, self.media.trust())

    def key_page(self) -> Any:
        """With all that the kernel got beside the key."""
        return key_page_in(self.dram, self.media.trust())

    def put_authentic(self, sequence: int, consumed: int, text: bool = True, **policy: int) -> None:
        """What a kernel of the last boot leaves. *text*: it is authenticated, too."""
        self.put_image(sequence, consumed, **policy)
        page = self.key_page()
        if text:
            self.media.put_text(sequence, page.text_counter)
        self.media.authenticate(sequence, page)

    @contextmanager
    def media_of_before(self) -> Iterator[None]:
        """Within, memory changes; then somebody puts back what was there."""
        copy = self.nvram.with_suffix(".copy")
        shutil.copyfile(self.nvram, copy)
        yield
        copy.replace(self.nvram)


class DirectMachine(WithTpm):
    """Without firmware."""


class TrustUefi(WithTpm, UefiMachine):
    """Firmware measures the loader."""


class TrustSecure(WithTpm, SecureMachine):
    """Firmware enters what is signed only."""
