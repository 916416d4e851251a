# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The products that most commands need, and their entry point.

kernel, root = need(Kernel(), Root())   # KernelProduct(bz_image, vmlinux, version, key), root.img

root.img is a raw ext4 image and read-only: copy it.
"""

from __future__ import annotations

from lab.setup.kernel import Kernel, KernelProduct
from lab.setup.loader import Loader
from lab.setup.need import Packages, Part, need, need_all
from lab.setup.packages import Group
from lab.setup.plugin import Plugin
from lab.setup.power import Power
from lab.setup.riscv_root import RiscvRoot
from lab.setup.root import Root

__all__ = [
    "MACHINE",
    "Group",
    "Kernel",
    "KernelProduct",
    "Loader",
    "Packages",
    "Part",
    "Plugin",
    "Power",
    "RISCV",
    "RiscvRoot",
    "Root",
    "TPM",
    "need",
    "need_all",
]

# The programs that a machine consists of and is controlled with.
MACHINE = Packages((Group.MACHINE,))
TPM = Packages((Group.TPM,))
RISCV = Packages((Group.MACHINE, Group.RISCV))
