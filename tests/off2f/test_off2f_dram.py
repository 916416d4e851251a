# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Main memory of DRAM with pseudo-NVM, the paper's machine: the page cache holds no text.

Goal: `text_dram_pages` is 0 where main memory is DRAM. Method: memtype=dram, with a range of System
RAM reserved at boot as NVM; a static program, which uses no other text, as ELF and as OFF2F. For a
dynamic one, ld.so and libraries are in the page cache, unless they are put into NVRAM as well.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from lab.machine import Machine
from lab.testbed.machines import make_config
from lab.testbed.off2f_guest import (
    convert,
    install,
    libraries_to_nvram,
    make_store,
    measure,
)
from lab.testbed.pm_guest import kernel_complaints, sh, wait_up

PSEUDO_NVM = "memmap=128M!0x20000000"

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@pytest.mark.in_turn
def test_dram_holds_no_text() -> None:
    config = make_config(f"t-offd-{os.getpid()}")
    config = replace(config, memtype="dram", cmdline_extra=PSEUDO_NVM)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        wait_up(machine)
        install(machine)
        make_store(machine)
        sh(machine, f"python3 /root/off2f-nops.py {1 << 20} /root/nops")
        convert(machine, "/root/nops", "/root/o/nops")
        elf = measure(machine, "/root/nops", text=True)
        assert elf == {"text_pages": 256, "text_dram_pages": 256}
        ours = measure(machine, "/root/o/nops", text=True)
        assert ours == {"text_pages": 256, "text_dram_pages": 0}
        dynamic(machine)
        assert not kernel_complaints(machine)


def dynamic(machine: Machine) -> None:
    words = "/root/o/python3 -c 0"
    convert(machine, "$(readlink -f /usr/bin/python3)", "/root/o/python3")
    before = measure(machine, words, text=True)
    libraries_to_nvram(machine, "/usr/bin/python3")
    after = measure(machine, words, text=True)
    print(f"of a dynamic program: {before}; with its libraries in NVRAM: {after}")
    assert before["text_pages"] == after["text_pages"]
    assert 0 < before["text_dram_pages"] < before["text_pages"]
    assert after["text_dram_pages"] == 0
