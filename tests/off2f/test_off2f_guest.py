# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs of two files in a guest behave as with ELF; only the place of the text differs.

Goal: what a program can observe of its loader is right; a wrong text never runs; an executing text
cannot be written; `nvm_mapping()` maps a segment of persistent memory and nothing else. Method: one
machine, a store on ext4 with DAX in NVRAM, and another region.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.off2f_guest import (
    PARAMETERS,
    STORE,
    convert,
    forget,
    guest_with_store,
    measure,
)
from lab.testbed.pm_guest import install as install_pm
from lab.testbed.pm_guest import load, sh, unload
from lab.testbed.pm_guest import status as region_of
from tests.support.turns import most_in_turn

pytestmark = [pytest.mark.full, pytest.mark.timeout(900), pytest.mark.usefixtures("quiet")]

REGION = "pm=32M@0x120000000"
TRY = "/root/o/off2f-try"
EXEC = "python3 /root/off2f-exec.py"
# The shell itself opens the file, before it prints the error.
HOLD_OPEN = "chmod 755 $XYZ; exec 9>>$XYZ; sleep 1000 >/dev/null 2>&1 & echo $! >/root/pid"
SLEEP = "import time; time.sleep(1000)"
IN_TEXT = 4096 + 4000  # of an XYZ
SEGMENT_PAGES = 256
NVM_ADDRESS = 0x100000000000  # unused by anything else
PROGRAM_ADDRESS = 0x555555554000  # of a program without address randomisation


def convert_programs(machine: Machine) -> None:
    convert(machine, "/root/off2f-try", TRY)
    convert(machine, "/bin/bash", "/root/o/bash")
    convert(machine, "$(readlink -f /usr/bin/python3)", "/root/o/python3")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_store(f"t-off-{os.getpid()}", more=REGION) as made:
        convert_programs(made)
        yield made


@pytest.fixture(scope="module")
def variant() -> str | None:
    """Return the kernel's variant, for which modules are built."""
    return None


def text_of(machine: Machine, program: str) -> str:
    output = json.loads(sh(machine, f"off2f info {program} --json").stdout)
    return str(output["xyz"])


def exec_result(machine: Machine, program: str) -> str:
    return sh(machine, f"{EXEC} run {program}").stdout.strip()


def test_everything_a_program_can_observe_is_right(machine: Machine) -> None:
    """Threads, fork, exec chains, vfork, dlopen, exceptions, TLS, signals on another stack."""
    assert sh(machine, "/root/off2f-try").stdout == "ok uid 0 euid 0 secure 0\n"
    assert sh(machine, TRY).stdout == "ok uid 0 euid 0 secure 0\n"


def test_shell_and_an_interpreter_work(machine: Machine) -> None:
    output = sh(
        machine, "/root/o/bash -c 'echo $((6*7)) | (read n; echo $n | cat; exit 3)'; echo $?"
    )
    assert output.stdout.split() == ["42", "3"]
    words = (
        "import json, ssl, os; print(os.waitstatus_to_exitcode(os.system('/root/o/bash -c true')))"
    )
    assert sh(machine, f'/root/o/python3 -c "{words}"').stdout == "0\n"


def test_maps_name_the_text_and_no_page_of_it_is_in_dram(machine: Machine) -> None:
    maps = sh(machine, "/root/o/bash -c 'cat /proc/$$/maps; readlink /proc/$$/exe; true'").stdout
    text = text_of(machine, "/root/o/bash")
    rows = [line for line in maps.splitlines() if line.endswith(text)]
    assert [line.split()[1] for line in rows] == ["r-xp"]
    assert not [line for line in maps.splitlines() if "xp" in line and "/root/o/bash" in line]
    assert maps.splitlines()[-1] == "/root/o/bash"
    of_code = [
        sh(machine, f"{bash} -c 'grep VmExe /proc/$$/status; true'").stdout
        for bash in ("/bin/bash", "/root/o/bash")
    ]
    assert of_code[0] == of_code[1] != ""
    sh(machine, "python3 /root/off2f-nops.py 200000 /root/nops")
    convert(machine, "/root/nops", "/root/o/nops")
    assert measure(machine, "/root/nops", text=True) == {"text_pages": 49, "text_dram_pages": 49}
    assert measure(machine, "/root/o/nops", text=True) == {"text_pages": 49, "text_dram_pages": 0}


def test_large_text_is_mapped_in_huge_pages(machine: Machine) -> None:
    sh(machine, f"python3 /root/off2f-nops.py {8 << 20} /root/large")
    convert(machine, "/root/large", "/root/o/large")
    before = int(sh(machine, f"cat {PARAMETERS}/huge_faults").stdout)
    took = measure(machine, "/root/o/large")
    assert int(sh(machine, f"cat {PARAMETERS}/huge_faults").stdout) - before >= 3
    assert took["minor_faults"] < 40
    sh(machine, "rm /root/large")


def test_set_user_id_is_kept_and_effective(machine: Machine) -> None:
    sh(machine, "cp /root/off2f-try /root/suid; chown nobody /root/suid; chmod 4755 /root/suid")
    # A user may execute only texts owned by that user or by root, as this one is.
    convert(machine, "/root/suid", "/opt/suid")
    user = "setpriv --reuid=33 --regid=33 --clear-groups"
    assert sh(machine, f"{user} /opt/suid").stdout == "ok uid 33 euid 65534 secure 1\n"


def test_installed_program_keeps_its_attributes_or_stays_what_it_is(machine: Machine) -> None:
    """An attribute of the user's: this kernel's ext4 has no others. A ramfs has none."""
    sh(machine, "mkdir -p /root/ram && mount -t ramfs none /root/ram")
    sh(machine, "cp /usr/bin/true /root/marked && cp /usr/bin/true /root/ram/marked")
    mark = "import os,sys; os.setxattr(sys.argv[1], 'user.mark', b'kept')"
    look = "import os,sys; print(os.getxattr(sys.argv[1], 'user.mark').decode())"
    sh(machine, f'python3 -c "{mark}" /root/marked')
    sh(machine, f"off2f install /root/marked --store {STORE}")
    assert sh(machine, f'python3 -c "{look}" /root/marked').stdout == "kept\n"
    sh(machine, f"off2f remove --restore /root/marked --store {STORE}")
    assert sh(machine, f'python3 -c "{look}" /root/marked').stdout == "kept\n"
    words = f"off2f install /root/marked --to /root/ram/marked --store {STORE}"
    refused = sh(machine, words, check=False)
    assert (refused.returncode, "user.mark" in refused.stderr) == (4, True), refused
    sh(machine, "cmp /usr/bin/true /root/ram/marked && test $(ls -A /root/ram | wc -l) = 1")
    sh(machine, f"umount /root/ram; off2f clean --store {STORE}")


def test_breakpoint_is_in_the_debugged_process_only(machine: Machine) -> None:
    convert(machine, "/root/off2f-debug", "/root/o/off2f-debug")
    assert sh(machine, "/root/o/off2f-debug").stdout == "ok 3\n"
    sh(machine, "off2f verify /root/o/off2f-debug")


@pytest.mark.parametrize("words", ["/root/o/sleep 1000", f"/root/o/python3 -c '{SLEEP}'"])
def test_debugger_changes_no_other_byte(machine: Machine, words: str) -> None:
    """The program's pages are mapped already, and not at the debugger's addresses.

    On a DAX file system the kernel itself would zero the rest of such a page (debug.c); the
    negative proof is in test_off2f_symbols.py.
    """
    if "sleep 1000" in words:
        convert(machine, "/usr/bin/sleep", "/root/o/sleep")
    assert sh(machine, f"{EXEC} poke {words}").stdout == "ok\n"
    sh(machine, f"off2f verify {words.split()[0]}")


def test_text_alone_cannot_be_executed(machine: Machine) -> None:
    """It is an ELF file, for tools that read symbols."""
    text = text_of(machine, TRY)
    assert sh(machine, f"head -c 4 {text} | tail -c 3").stdout == "ELF"
    assert exec_result(machine, text) == "ENOEXEC"


def test_core_dump_has_a_backtrace(machine: Machine) -> None:
    sh(machine, "echo /root/core >/proc/sys/kernel/core_pattern; rm -f /root/core")
    kill = "/root/o/python3 -c 'import os; os.kill(os.getpid(), 11)'"
    sh(machine, f"cd /root; ulimit -c unlimited; {kill}", check=False)
    output = sh(machine, "gdb -batch -ex bt $(readlink -f /usr/bin/python3) /root/core 2>&1").stdout
    assert "terminated with signal SIGSEGV" in output
    assert "in Py_RunMain ()" in output


SPOILED: dict[str, tuple[str, str]] = {
    "missing": ("mv $XYZ $XYZ.away", "ENOENT"),
    "another": ("cp $OTHER $XYZ; chmod 555 $XYZ", "EBADMSG"),
    "end": (f"{EXEC} flip $XYZ $(( $(stat -c %s $XYZ) - 100 ))", "EBADMSG"),
    "short": ("truncate -s -4096 $ABC", "EBADMSG"),
    "page": ("truncate -s 300 $ABC", "EBADMSG"),
    "header": (f"{EXEC} flip $ABC 130; chmod 755 $ABC", "EBADMSG"),
    "version": (f"{EXEC} field $ABC 4 01", "ENOEXEC"),
    "machine": (f"{EXEC} field $ABC 16 b700", "ENOEXEC"),
    "count": (f"{EXEC} field $ABC 20 05", "EBADMSG"),
    "address": (f"{EXEC} field $ABC 256 00000000000000ff", "EBADMSG"),
    "writable": ("chmod 757 $XYZ", "EACCES"),
    "open": (HOLD_OPEN, "ETXTBSY"),
}
EACH_TIME = {"another", "page", "machine", "writable"}  # of each errno one; the others take turns


@pytest.mark.parametrize("name", most_in_turn(SPOILED, always=EACH_TIME))
def test_wrong_header_words_are_refused_by_name(machine: Machine, name: str) -> None:
    spoil, errno = SPOILED[name]
    program = f"/root/o/{name}"
    sh(machine, f"printf {name} | cat /usr/bin/true - >/root/elf; chmod 755 /root/elf")
    sh(machine, f"rm -rf /nvm/{name}; mkdir -p /nvm/{name}")
    words = f"off2f convert /root/elf --abc {program} --xyz /nvm/{name}/xyz"
    sh(machine, words)
    assert exec_result(machine, program) == "ok"
    forget(machine)
    sh(machine, "dmesg -C")
    other = text_of(machine, TRY)
    sh(machine, f"ABC={program} XYZ=/nvm/{name}/xyz OTHER={other}; {spoil}; true")
    assert exec_result(machine, program) == errno
    output = [line for line in sh(machine, "dmesg").stdout.splitlines() if "binfmt_off2f" in line]
    assert len(output) == 1, output
    assert f"({'-' + errno})" in output[0]
    assert name in output[0]
    sh(machine, "test -f /root/pid && kill $(cat /root/pid); rm -f /root/pid", check=False)


def test_cached_header_follows_the_file(machine: Machine) -> None:
    """The module caches headers; a byte after the part that exec itself reads is changed."""
    other = "/root/o/changed"
    flip = f"{EXEC} flip {other} 300"
    sh(machine, f"cp {TRY} {other}; {flip}")
    assert exec_result(machine, TRY) == "ok"
    assert exec_result(machine, other) == "EBADMSG"
    sh(machine, flip)
    assert exec_result(machine, other) == "ok"
    sh(machine, flip)
    assert exec_result(machine, other) == "EBADMSG"


def test_text_on_a_disk_is_refused(machine: Machine) -> None:
    sh(machine, "off2f convert /usr/bin/true --abc /root/o/on-disk --xyz /root/on-disk.xyz")
    assert exec_result(machine, "/root/o/on-disk") == "ENOEXEC"
    assert "o/on-disk: " in sh(machine, "dmesg | grep 'no DAX file system'").stdout


def test_executed_text_cannot_be_written(machine: Machine) -> None:
    sh(machine, f"{EXEC} run /root/o/bash; echo 0 >{PARAMETERS}/keep")
    text = text_of(machine, "/root/o/bash")
    write = f"python3 -c \"import os; os.close(os.open('{text}', os.O_WRONLY))\""
    cut = f"python3 -c \"import os; os.truncate('{text}', 10)\""
    sh(machine, f"chmod 755 {text} && {write}")  # it is not executing
    sh(machine, "/root/o/bash -c 'while sleep 1; do :; done' >/dev/null 2>&1 & echo $! >/root/pid")
    for words in (write, cut):
        done = sh(machine, words, check=False)
        assert "Text file busy" in done.stderr, words
    sh(
        machine,
        "kill $(cat /root/pid); while kill -0 $(cat /root/pid) 2>/dev/null; do sleep 0.1; done",
    )
    sh(machine, f"{write}; chmod 555 {text}; echo 64 >{PARAMETERS}/keep")
    sh(machine, "off2f verify /root/o/bash")


def test_flipped_bit_is_found_by_install_verify_and_the_strict_policy(
    machine: Machine,
) -> None:
    sh(machine, "printf rot | cat /usr/bin/true - >/root/elf; chmod 755 /root/elf")
    convert(machine, "/root/elf", "/root/o/rotten")
    text = text_of(machine, "/root/o/rotten")
    forget(machine)
    sh(machine, f"echo 1 >{PARAMETERS}/strict")
    assert exec_result(machine, "/root/o/rotten") == "ok"
    forget(machine)
    sh(machine, f"{EXEC} flip {text} {IN_TEXT}")  # at the end of a page, which never runs
    done = sh(machine, "off2f verify /root/o/rotten", check=False)
    assert (done.returncode, "damaged" in done.stderr) == (1, True)
    done = sh(machine, f"off2f install /root/elf --to /root/o/second --store {STORE}", check=False)
    assert (done.returncode, "damaged" in done.stderr) == (1, True)
    assert exec_result(machine, "/root/o/rotten") == "EBADMSG"
    sh(machine, f"echo 0 >{PARAMETERS}/strict")
    assert exec_result(machine, "/root/o/rotten") == "ok", "only the policy checks each byte"
    forget(machine)  # a text that executes cannot be written
    sh(machine, f"{EXEC} flip {text} {IN_TEXT}; off2f verify /root/o/rotten")


@pytest.fixture(scope="module")
def segments(machine: Machine, variant: str | None) -> Iterator[dict[str, int]]:
    """Yield physical addresses: the region, two adjacent raw segments, and a block segment."""
    install_pm(machine, variant)
    load(machine, "format=1", source="")
    size = f"{SEGMENT_PAGES * 4096}"
    sh(machine, f"pmadmin create one {size} && pmadmin create two {size} --mode 644")
    sh(machine, f"pmadmin create blocks {size} --block 512; cp /root/off2f-nvm /opt")
    phys = int(region_of(machine)["phys"])
    listed = json.loads(sh(machine, "pmadmin --json list").stdout)
    yield {"region": phys} | {s["name"]: phys + s["offset"] for s in listed}
    sh(machine, "chmod 600 /dev/pmctl")
    unload(machine)


def nvm_mapping(
    machine: Machine, paddr: int, pages: int = 1, vaddr: int = NVM_ADDRESS, before: str = ""
) -> list[str]:
    """Return 1 and the bytes found, or 0 and the name of errno."""
    call = f"{before} /opt/off2f-nvm {paddr:#x} {vaddr:#x} {pages}"
    return sh(machine, call, check=False).stdout.split()


def test_persistent_memory_is_mapped_by_its_physical_address(
    machine: Machine, segments: dict[str, int]
) -> None:
    one = segments["one"]
    output = sh(machine, f"/opt/off2f-nvm {one + 4096:#x} {NVM_ADDRESS:#x} 2 stored").stdout
    assert output.split() == ["1", "stored"]
    assert sh(machine, "dd if=/dev/pm/one bs=4096 skip=1 | head -c 6").stdout == "stored"
    sh(machine, "printf written >/dev/pm/one")
    assert nvm_mapping(machine, one, SEGMENT_PAGES) == ["1", "written"]


def test_nothing_but_a_segment_is_mapped(machine: Machine, segments: dict[str, int]) -> None:
    region, one = segments["region"], segments["one"]
    for paddr, pages, vaddr, errno in (
        (one + 512, 1, NVM_ADDRESS, "EINVAL"),
        (one, 1, NVM_ADDRESS + 512, "EINVAL"),
        (one, 0, NVM_ADDRESS, "EINVAL"),
        (one, SEGMENT_PAGES + 1, NVM_ADDRESS, "ENXIO"),  # the next segment, too
        (one, 1 << 52, NVM_ADDRESS, "EINVAL"),
        (one, (1 << 52) - 1, NVM_ADDRESS, "ENXIO"),
        (segments["blocks"], 1, NVM_ADDRESS, "ENXIO"),
        (region, 1, NVM_ADDRESS, "ENXIO"),  # its own tables
        (region - 4096, 1, NVM_ADDRESS, "ENXIO"),  # RAM
        (0xFEE00000, 1, NVM_ADDRESS, "ENXIO"),  # a device
    ):
        assert nvm_mapping(machine, paddr, pages, vaddr) == ["0", errno], (hex(paddr), pages)
    taken = nvm_mapping(machine, one, vaddr=PROGRAM_ADDRESS, before="setarch -R")
    assert taken == ["0", "EEXIST"]


def test_mapping_needs_rights_to_the_segment(machine: Machine, segments: dict[str, int]) -> None:
    user = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    assert nvm_mapping(machine, segments["two"], before=user) == ["0", "EACCES"]  # /dev/pmctl
    sh(machine, "printf readable >/dev/pm/two; chmod 666 /dev/pmctl /dev/pm/one")
    assert nvm_mapping(machine, segments["one"], before=user) == ["0", "EACCES"]
    assert nvm_mapping(machine, segments["two"], before=user) == ["1", "readable"]
    write = f"{user} /opt/off2f-nvm {segments['two']:#x} {NVM_ADDRESS:#x} 1 stored"
    assert not sh(machine, write, check=False).ok
    assert sh(machine, "head -c 8 /dev/pm/two").stdout == "readable"


def test_without_a_region_nothing_is_mapped(machine: Machine, segments: dict[str, int]) -> None:
    unload(machine)
    assert nvm_mapping(machine, segments["one"]) == ["0", "ENODEV"]
    load(machine, source="")


def test_module_unloads_when_no_text_executes(machine: Machine) -> None:
    sh(machine, f"{TRY} >/dev/null; echo 0 >{PARAMETERS}/keep; umount /nvm; rmmod binfmt_off2f")
    assert exec_result(machine, TRY) == "ENOEXEC"
    sh(machine, "mount -o dax=always /dev/pmem0 /nvm; insmod /root/binfmt_off2f.ko")
    assert exec_result(machine, TRY) == "ok"
