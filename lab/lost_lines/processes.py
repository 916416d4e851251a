# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Programs in a kernel's memory: the pages that their page tables map."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import drgn
from drgn.helpers.linux.list import list_for_each_entry
from drgn.helpers.linux.mm import for_each_vma

from lab.lost_lines.kernel import DAMAGE, PTE_ADDRESS, PTE_LARGE, PTE_PRESENT, SHIFTS, Kernel
from lab.lost_lines.memory import PAGE_BYTES

# Bounds for damaged lists.
TASKS_MAX = 100_000
VMAS_MAX = 100_000
DENTRIES_MAX = 256
STACK_BYTES = 16 << 10
ENTRIES = 512
USER_ENTRIES = 256  # of the top level


@dataclass(frozen=True)
class Mapping:
    """A part of a program's address space."""

    begin: int
    end: int
    name: str
    offset_bytes: int  # in its file


@dataclass
class Process:
    """A task with an address space, or a kernel thread."""

    pid: int
    name: str
    mappings: list[Mapping] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}[{self.pid}]"

    def mapping_of(self, address: int) -> Mapping | None:
        return next((m for m in self.mappings if m.begin <= address < m.end), None)


@dataclass
class Users:
    """Users of pages according to page tables and stacks, by page frame number."""

    mapped: dict[int, tuple[Process, int]] = field(default_factory=dict)  # and the address
    sharers: dict[int, int] = field(default_factory=dict)
    tables: dict[int, Process] = field(default_factory=dict)
    stacks: dict[int, Process] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)


def text_of(raw: drgn.Object) -> str:
    """A string in the kernel, which may be damaged."""
    text = raw.string_().decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)[:200]


def path_of(dentry: drgn.Object) -> str:
    """From the root of its file system."""
    names: list[str] = []
    for _ in range(DENTRIES_MAX):
        parent = dentry.d_parent.read_()
        if parent.value_() == dentry.value_():
            break
        names.append(text_of(dentry.d_name.name))
        dentry = parent
    return "/" + "/".join(reversed(names))


def users_of(kernel: Kernel) -> Users:
    """All tasks. What cannot be read is noted and skipped."""
    users = Users()
    first = kernel.variable("init_task", "struct task_struct").tasks.address_of_()
    tasks = list_for_each_entry("struct task_struct", first, "tasks")
    for count, task in enumerate(_until_fault(tasks, users)):
        if count >= TASKS_MAX:
            users.damaged.append(f"the list of tasks does not end after {TASKS_MAX}")
            break
        try:
            _add_task(kernel, users, task)
        except DAMAGE as error:
            users.damaged.append(f"a task cannot be read: {error}")
    return users


def _until_fault(tasks: Iterator[drgn.Object], users: Users) -> Iterator[drgn.Object]:
    try:
        yield from tasks
    except DAMAGE as error:
        users.damaged.append(f"the list of tasks is damaged: {error}")


def _add_task(kernel: Kernel, users: Users, task: drgn.Object) -> None:
    process = Process(int(task.pid.value_()), text_of(task.comm))
    _add_stacks(kernel, users, process, task)
    mm = task.mm.read_()
    if not mm.value_():
        return
    users.processes.append(process)
    for count, vma in enumerate(for_each_vma(mm)):
        if count >= VMAS_MAX:
            break
        process.mappings.append(_mapping(mm, vma))
    _walk(kernel, users, process, kernel.translate(int(mm.pgd.value_())))


def _add_stacks(kernel: Kernel, users: Users, process: Process, task: drgn.Object) -> None:
    head = task.signal.thread_head.address_of_()
    for count, thread in enumerate(list_for_each_entry("struct task_struct", head, "thread_node")):
        if count >= TASKS_MAX:
            break
        stack = int(thread.stack.value_())
        for address in range(stack, stack + STACK_BYTES, PAGE_BYTES):
            users.stacks[kernel.translate(address) // PAGE_BYTES] = process


def _mapping(mm: drgn.Object, vma: drgn.Object) -> Mapping:
    begin, end = int(vma.vm_start.value_()), int(vma.vm_end.value_())
    file = vma.vm_file.read_()
    offset = int(vma.vm_pgoff.value_()) * PAGE_BYTES
    if file.value_():
        return Mapping(begin, end, path_of(file.f_path.dentry.read_()), offset)
    if begin <= int(mm.brk.value_()) and end >= int(mm.start_brk.value_()):
        return Mapping(begin, end, "heap", 0)
    if begin <= int(mm.start_stack.value_()) < end:
        return Mapping(begin, end, "stack", 0)
    return Mapping(begin, end, "anonymous", 0)


def _walk(kernel: Kernel, users: Users, process: Process, table_phys: int) -> None:
    """Walk the user half of a page table, with an explicit stack, as it may be damaged."""
    seen: set[tuple[int, int]] = set()
    todo = [(table_phys, 0, 0)]
    while todo:
        table, level, base = todo.pop()
        if (table, level) in seen:
            continue
        seen.add((table, level))
        try:
            raw = kernel.read_phys(table, PAGE_BYTES)
        except drgn.FaultError:
            users.damaged.append(f"a page table of {process} is outside NVRAM")
            continue
        users.tables.setdefault(table // PAGE_BYTES, process)
        entries = struct.unpack(f"<{ENTRIES}Q", raw)[: USER_ENTRIES if level == 0 else ENTRIES]
        shift = SHIFTS[level]
        for index, entry in enumerate(entries):
            if not entry & PTE_PRESENT:
                continue
            address, phys = base + (index << shift), entry & PTE_ADDRESS
            if shift != SHIFTS[-1] and not entry & PTE_LARGE:
                todo.append((phys, level + 1, address))
                continue
            for n in range((1 << shift) // PAGE_BYTES if shift <= 21 else 0):
                frame = phys // PAGE_BYTES + n
                users.mapped.setdefault(frame, (process, address + n * PAGE_BYTES))
                users.sharers[frame] = users.sharers.get(frame, 0) + 1
