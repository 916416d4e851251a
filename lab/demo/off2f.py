# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo off2f`: programs with their text in NVRAM, beside the same programs as ELF."""

from __future__ import annotations

from collections.abc import Callable

from lab.demo.promises import Promises
from lab.machine import Machine
from lab.result import Result
from lab.testbed.off2f_guest import convert, forget, guest_with_store, measure, mount
from lab.testbed.pm_guest import cut, kernel_complaints, reset, sh

HOME = "/opt/off2f"
SOURCE = "/root/demo.c"
# What each runs: enough to execute much of its text, with the same output each time.
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


def play(name: str, print_line: Callable[[str], None]) -> Result:
    """Run all of it in a machine that is destroyed afterwards."""
    promises = Promises(print_line, Result("demo-off2f"))
    with guest_with_store(name, busybox=True) as machine:
        _make(machine, promises)
        elf = _beside(machine, promises)
        for what, lose in (
            ("The kernel reboots without unmounting its file systems.", _reset),
            ("The power fails: no warning, no Stop; QEMU gets SIGKILL.", cut),
        ):
            print_line(what)
            lose(machine)
            mount(machine)
            _again(machine, promises, elf)
        promises.check(not kernel_complaints(machine), "the kernel logged no warning")
    promises.end()
    return promises.result


def _reset(machine: Machine) -> None:
    reset(machine, "b")


def _make(machine: Machine, promises: Promises) -> None:
    body = "".join(f"int f{n}(int a) {{ return a * {n} + (a > {n} ? f(a) : 0); }}\\n"
                   for n in range(20))  # fmt: skip
    sh(machine, f"printf 'int f(int);\\n{body}' >{SOURCE}")
    for name, (elf, _) in WORK.items():
        convert(machine, elf, f"{HOME}/{name}")
    sh(machine, "sync")
    promises.print_line("Four programs become two files each: ABC on the disk, text in NVRAM.")
    listing = sh(machine, f"ls -l {HOME} /nvm/store/text").stdout
    for line in listing.splitlines():
        promises.print_line(f"  {line}")


def _output(machine: Machine, program: str, words: str) -> tuple[int, str]:
    done = sh(machine, f"{program} {words} 2>&1", check=False)
    return done.returncode, done.stdout


def _row(promises: Promises, name: str, kind: str, took: dict[str, int]) -> None:
    reads, kib = took["disk_reads"], took["disk_bytes"] >> 10
    faults = took["minor_faults"] + took["major_faults"]
    promises.print_line(f"  {name:13} {kind:6} {reads:5} reads {kib:7} KiB {faults:6} faults")


def _beside(machine: Machine, promises: Promises) -> dict[str, dict[str, int]]:
    """Run each as ELF and as OFF2F, with cold caches; return the counts of the ELFs."""
    promises.print_line("With cold caches, from the disk:")
    found = {}
    for name, (elf, words) in WORK.items():
        forget(machine)
        theirs = measure(machine, f"{elf} {words}")
        forget(machine)
        ours = measure(machine, f"{HOME}/{name} {words}")
        _row(promises, name, "ELF", theirs)
        _row(promises, name, "OFF2F", ours)
        fewer = ours["disk_bytes"] < theirs["disk_bytes"]
        promises.check(fewer, f"{name} reads less from the disk as OFF2F")
        same = _output(machine, elf, words) == _output(machine, f"{HOME}/{name}", words)
        promises.check(same, f"{name} prints the same as the ELF")
        place = measure(machine, f"{HOME}/{name} {words}", text=True)
        libraries = place["text_dram_pages"]
        promises.print_line(
            f"  {name}: {place['text_pages']} pages of text, {libraries} of them in DRAM's page"
            " cache (ld.so and libraries)"
        )
        if name == "busybox":
            promises.check(libraries == 0, "a static program has no page of text in the page cache")
        for kind, took in (("elf", theirs), ("off2f", ours)):
            prefix = f"{name.replace('-', '_')}_{kind}"
            promises.result.add(f"{prefix}_reads", took["disk_reads"], "reads", "counted")
            promises.result.add(f"{prefix}_bytes", took["disk_bytes"], "bytes", "counted")
        found[name] = theirs
    return found


def _again(machine: Machine, promises: Promises, elf: dict[str, dict[str, int]]) -> None:
    for name, (program, words) in WORK.items():
        forget(machine)
        ours = measure(machine, f"{HOME}/{name} {words}")
        _row(promises, name, "OFF2F", ours)
        fewer = ours["disk_bytes"] < elf[name]["disk_bytes"]
        promises.check(fewer, f"{name} runs again, and its text is not read from the disk")
        same = _output(machine, program, words) == _output(machine, f"{HOME}/{name}", words)
        promises.check(same, f"{name} prints the same as the ELF")
    whole = sh(machine, f"off2f verify {HOME}/*", check=False)
    promises.check(whole.ok, "each byte of each text is right")
