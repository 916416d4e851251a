# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory controllers that a machine can have behind its caches: `rem run --memory`."""

from __future__ import annotations

from lab.errors import UsageError

# As people call them, and as models/memory does (CONTROLLERS in src/build.rs).
MEMORIES = {
    "ocpmem": "lightpc",
    "ocpmem-b": "lightpc-b",
    "dram": "dram",
    "optane": "optane",
    "nmem": "nmem",
    "nvdimm-n": "nvdimm-n",
    "pram": "bare-pram",
}
# The caches of a machine with such a memory, if none are chosen.
MEMORY_PROFILE = "lightpc"


def check_memory(name: str) -> str:
    """The name, if there is such a controller."""
    if name not in MEMORIES:
        raise UsageError(f"--memory {name}: choose one of {', '.join(MEMORIES)}")
    return name
