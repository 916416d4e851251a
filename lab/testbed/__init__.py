# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Machines that are ready for use: what tests, experiments, benchmarks and campaigns start from.

machines.py     a machine of this checkout's products; with volatile caches
memory_machine.py  a machine whose guest time follows a memory controller
guest_job.py    programs of guest/programs at work, and the identity of processes
workload.py     servers with clients on the host, programs in the guest
pm_guest.py     a guest with a region of persistent memory and pm's modules
off2f_guest.py  a guest with a text store in NVRAM and OFF2F's module
"""
