# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs of two files through Stop-and-Go, and installations through power cuts.

Goal: a process whose text is in NVRAM continues after Go; a cut of an installation leaves the old
program or the new one. Method: programs that count run over a Stop; a loop installs two versions in
turn while the power fails without warning.
"""

from __future__ import annotations

import os
import time

import pytest

from lab.machine import Machine
from lab.testbed.off2f_guest import STORE, convert, guest_with_store, mount
from lab.testbed.pm_guest import (
    BOOT_LIMIT_S,
    cut,
    kernel_complaints,
    sh,
)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

CUTS = 6
COUNT = "import time; n=0\nwhile True: n+=1; open('/root/n','w').write(str(n)); time.sleep(0.01)"
LOOP = (
    "while :; do for v in 1 2; do off2f install /root/v$v --to /root/program --store {store}"
    " >/dev/null; echo x >>/root/turns; done; done"
)


def test_programs_continue_after_a_stop() -> None:
    with guest_with_store(f"t-offs-{os.getpid()}") as machine:
        convert(machine, "$(readlink -f /usr/bin/python3)", "/root/o/python3")
        convert(machine, "/root/off2f-try", "/root/o/off2f-try")
        sh(machine, f'/root/o/python3 -c "{COUNT}" >/dev/null 2>&1 & echo $! >/root/pid')
        sh(machine, "while /root/o/off2f-try >/dev/null; do :; done 2>/root/failed >&2 & sleep 1")
        before = counted(machine)
        machine.cut()
        machine.resume()
        machine.wait_resumed(BOOT_LIMIT_S)
        machine.guest.wait_ssh(BOOT_LIMIT_S)
        while counted(machine) <= before + 1:  # the test's own limit ends this
            time.sleep(0.2)
        sh(machine, "kill -0 $(cat /root/pid) && test ! -s /root/failed")
        assert sh(machine, "/root/o/off2f-try").stdout == "ok uid 0 euid 0 secure 0\n"
        assert not kernel_complaints(machine)


def counted(machine: Machine) -> int:
    return int(sh(machine, "until test -s /root/n; do sleep 0.05; done; cat /root/n").stdout or 0)


def test_cut_while_installing_leaves_old_or_new() -> None:
    with guest_with_store(f"t-offi-{os.getpid()}") as machine:
        for version in (1, 2):
            sh(machine, f"printf {version} | cat $(readlink -f /bin/bash) - >/root/v{version}")
        sh(machine, "chmod 755 /root/v1 /root/v2; cp /root/v1 /root/program; sync")
        for number in range(CUTS):
            sh(machine, "rm -f /root/turns")
            sh(machine, f"({LOOP.format(store=STORE)}) >/dev/null 2>&1 &")
            sh(machine, f"until test -s /root/turns; do sleep 0.0{number + 1}; done")
            cut(machine)
            mount(machine)
            sh(machine, f"/root/program -c 'exit 7'; test $? = 7; off2f clean --store {STORE}")
            check_program(machine)
            assert not kernel_complaints(machine)


def check_program(machine: Machine) -> None:
    """Check that the program is one of both versions, complete, and that there is one text."""
    first = sh(machine, "head -c 4 /root/program | tail -c 3").stdout
    if first == "ELF":
        sh(machine, "cmp /root/program /root/v1")
        return
    sh(machine, "off2f verify /root/program && off2f restore /root/program /root/back")
    sh(machine, "cmp /root/back /root/v1 || cmp /root/back /root/v2")
    assert sh(machine, f"ls {STORE}/text {STORE}/tmp | grep -c xyz").stdout.strip() == "1"
