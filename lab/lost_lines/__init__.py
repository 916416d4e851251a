# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a cut lost: lines whose bytes on media differ from what CPUs saw, with their owners and
their last writers. `rem inspect` shows it, for a machine or a recording.

    memory.py      two files, and the lines in which they differ
    kernel.py      the kernel in one of them: page table, symbols, types (drgn)
    processes.py   page tables and mappings of programs, kernel stacks
    pages.py       the owner of a page
    writers.py     the last writer of a line
    report.py      all of it, summed by owner
    stopped.py     what may differ after a Stop
    source.py      the files of a machine

A cut may leave anything, and a file may hold anything: what is damaged is reported as such, and
every walk is bounded.
"""
