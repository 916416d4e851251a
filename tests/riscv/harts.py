# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Machines of RISC-V that have booted, and the inner checks of their cuts."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.machine import Machine
from lab.machine.config import RISCV_CPU_BY_LINES
from lab.machine.cut_points import attach_cut_points
from lab.setup.products import Kernel, need
from lab.testbed.machines import make_config
from lab.verdict import BrokenError
from tests.support.claims import BOOT_LIMIT_S, GO_LIMIT_S, machine_name

CACHES = "wsp-c5528"
BY_LINES = RISCV_CPU_BY_LINES
LINE_BYTES = 64
PIECE_BYTES = 1 << 20
# What a hart stores to after its flush: the stacks of the functions below its saved context.
LINES_OF_HART = 64


@contextmanager
def booted_riscv(
    purpose: str,
    harts: int,
    caches: str | None = None,
    mutants: bool = False,
    **options: Any,
) -> Iterator[Machine]:
    """A guest that answers; destroyed at the end. *options* are fields of the configuration."""
    kernel = need(Kernel("riscv64-mutants")).bz_image if mutants else None
    config = make_config(machine_name(purpose), harts, None, kernel, caches, isa="riscv64")
    with Machine.create(replace(config, **options), destroy_on_exit=True) as machine:
        attach_cut_points(machine)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        yield machine


def lines_that_differ(one: Path, other: Path, from_bytes: int) -> int:
    """Lines of two files of one size, from a place on."""
    left, right = _mapped(one), _mapped(other)
    count = 0
    for at in range(from_bytes, len(left), PIECE_BYTES):
        mine, its = left[at : at + PIECE_BYTES], right[at : at + PIECE_BYTES]
        if mine != its:
            count += sum(
                mine[n : n + LINE_BYTES] != its[n : n + LINE_BYTES]
                for n in range(0, len(mine), LINE_BYTES)
            )
    return count


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)


def check_media_is_whole(machine: Machine) -> None:
    """After a Stop with volatile caches, before power returns: media has what the CPUs saw, but for
    some lines of dead stacks."""
    files, config = machine.files, machine.config
    lines = lines_that_differ(files.at_cut(config), files.nvram(config), config.block_bytes)
    allowed = LINES_OF_HART * config.cpus
    if lines > allowed:
        raise BrokenError("differs", f"{lines} lines are not on media, {allowed} may be")


def check_stop_writes_back(machine: Machine) -> None:
    """A Stop and a Go of a machine with volatile caches, and its media in between."""
    machine.guest.close()
    record = machine.cut()
    assert record.stopped, record
    check_media_is_whole(machine)
    machine.resume()
    assert machine.wait_resumed(GO_LIMIT_S * 10).resumed
