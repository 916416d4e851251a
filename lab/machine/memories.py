# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Memory controllers that a machine can have behind its caches: `rem run --memory`.

A controller may be followed by settings, as `ocpmem:row_buffer=off:program_ns=500`: those of
`rem media --set`.
"""

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
# That of DRAM which caches NVRAM (memtype=mixed).
DRAM_CACHE = "dram"
# The caches of a machine with such a memory, if none are chosen.
MEMORY_PROFILE = "lightpc"
ASIC_CORES = "lightpc-o3"  # the same caches, and the cores of LightPC's prototype as an ASIC
PROFILE_MEMORY = "ocpmem"  # which the profile's own numbers are of


def check_memory(memory: str) -> str:
    """The memory, if there is such a controller. Settings are the plugin's to check."""
    name = memory.partition(":")[0]
    if name not in MEMORIES:
        raise UsageError(f"--memory {memory}: choose one of {', '.join(MEMORIES)}")
    return memory


def controller_of(memory: str) -> str:
    """The plugin's word for it."""
    name, colon, settings = check_memory(memory).partition(":")
    return MEMORIES[name] + colon + settings
