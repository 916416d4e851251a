# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a cut lost: lines that media has otherwise than CPUs saw them, whose they were, and who
wrote them last. `rem inspect` shows it, of a machine or of a recording.

    memory.py      two files, and the lines in which they differ
    kernel.py      the kernel in one of them: page table, symbols, types (drgn)
    processes.py   page tables and mappings of programs, kernel stacks
    pages.py       whose a page is
    writers.py     who stored to a line last
    report.py      all of it, added up by owner

A cut leaves anything, and a file may hold anything: what does not make sense is told as such, and
every walk has an end.
"""
