# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: touch each page of a mapped segment and print how many faults that took.

pm-huge.py NAME
"""

import mmap
import resource
import sys

import pm

with pm.Service() as service, service.map(sys.argv[1]) as memory:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for at in range(0, len(memory), mmap.PAGESIZE):
        memory[at : at + 1] = b"x"
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
