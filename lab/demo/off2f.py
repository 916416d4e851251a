# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo off2f`: programs whose text is in NVRAM, beside the same ones as ELF."""

from __future__ import annotations

from collections.abc import Callable

from lab.demo.off2f_machine import convert, forget, guest_with_store, measure, mount
from lab.demo.pm_machine import cut, kernel_complaints, reset, sh
from lab.demo.told import Told
from lab.machine import Machine
from lab.result import Result

HOME = "/opt/off2f"
SOURCE = "/root/demo.c"
# What each does: enough to run much of its text, and the same output each time.
WORK = {
    "redis-server": ("/usr/bin/redis-server", "--version"),
    "sqlite3": (
        "/usr/bin/sqlite3",
        ":memory: 'with recursive c(n) as (select 1 union all select n+1 from c where n<2000)"
        " select sum(n), count(distinct n%7) from c'",
    ),
    "busybox": ("/root/busybox", f"md5sum {SOURCE}"),
    "cc1": ("$(gcc -print-prog-name=cc1)", f"-quiet -O2 {SOURCE} -o -"),
}


def play(name: str, tell: Callable[[str], None]) -> Result:
    """The whole; the machine is gone afterwards."""
    told = Told(tell, Result("demo-off2f"))
    with guest_with_store(name, busybox=True) as machine:
        _make(machine, told)
        elf = _beside(machine, told)
        for what, lose in (
            ("The kernel reboots without a word to its file systems.", _reset),
            ("The power goes: no warning, no Stop; QEMU gets SIGKILL.", cut),
        ):
            tell(what)
            lose(machine)
            mount(machine)
            _again(machine, told, elf)
        told.promise(not kernel_complaints(machine), "the kernel has nothing to complain of")
    told.end()
    return told.result


def _reset(machine: Machine) -> None:
    reset(machine, "b")


def _make(machine: Machine, told: Told) -> None:
    body = "".join(f"int f{n}(int a) {{ return a * {n} + (a > {n} ? f(a) : 0); }}\\n"
                   for n in range(20))  # fmt: skip
    sh(machine, f"printf 'int f(int);\\n{body}' >{SOURCE}")
    for name, (elf, _) in WORK.items():
        convert(machine, elf, f"{HOME}/{name}")
    sh(machine, "sync")
    told.tell("Four programs are made of two files each: ABC on the disk, text in NVRAM.")
    said = sh(machine, f"ls -l {HOME} /nvm/store/text").stdout
    for line in said.splitlines():
        told.tell(f"  {line}")


def _output(machine: Machine, program: str, words: str) -> tuple[int, str]:
    done = sh(machine, f"{program} {words} 2>&1", check=False)
    return done.returncode, done.stdout


def _row(told: Told, name: str, kind: str, took: dict[str, int]) -> None:
    reads, kib = took["disk_reads"], took["disk_bytes"] >> 10
    faults = took["minor_faults"] + took["major_faults"]
    told.tell(f"  {name:13} {kind:6} {reads:5} reads {kib:7} KiB {faults:6} faults")


def _beside(machine: Machine, told: Told) -> dict[str, dict[str, int]]:
    """Each as ELF and as OFF2F, with cold caches; returns what the ELFs took."""
    told.tell("With cold caches, from the disk:")
    found = {}
    for name, (elf, words) in WORK.items():
        forget(machine)
        theirs = measure(machine, f"{elf} {words}")
        forget(machine)
        ours = measure(machine, f"{HOME}/{name} {words}")
        _row(told, name, "ELF", theirs)
        _row(told, name, "OFF2F", ours)
        fewer = ours["disk_bytes"] < theirs["disk_bytes"]
        told.promise(fewer, f"{name} reads less of the disk as OFF2F")
        same = _output(machine, elf, words) == _output(machine, f"{HOME}/{name}", words)
        told.promise(same, f"{name} says the same as the ELF")
        place = measure(machine, f"{HOME}/{name} {words}", text=True)
        libraries = place["text_dram_pages"]
        told.tell(f"  {name}: {place['text_pages']} pages of text, {libraries} of them in DRAM's"
                  " page cache (ld.so and libraries)")  # fmt: skip
        if name == "busybox":
            told.promise(libraries == 0, "a static program has no page of text in the page cache")
        for kind, took in (("elf", theirs), ("off2f", ours)):
            prefix = f"{name.replace('-', '_')}_{kind}"
            told.result.add(f"{prefix}_reads", took["disk_reads"], "reads", "counted")
            told.result.add(f"{prefix}_bytes", took["disk_bytes"], "bytes", "counted")
        found[name] = theirs
    return found


def _again(machine: Machine, told: Told, elf: dict[str, dict[str, int]]) -> None:
    for name, (program, words) in WORK.items():
        forget(machine)
        ours = measure(machine, f"{HOME}/{name} {words}")
        _row(told, name, "OFF2F", ours)
        fewer = ours["disk_bytes"] < elf[name]["disk_bytes"]
        told.promise(fewer, f"{name} runs again, its text not from the disk")
        same = _output(machine, program, words) == _output(machine, f"{HOME}/{name}", words)
        told.promise(same, f"{name} says the same as the ELF")
    whole = sh(machine, f"off2f verify {HOME}/*", check=False)
    told.promise(whole.ok, "each byte of each text is right")
