# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the rest of the laboratory asks set-up for; each call makes what is not there yet.

progress = Progress()
kernel = ensure_kernel(progress)   # KernelProduct(bz_image, vmlinux, version, key)
image = ensure_root(progress)      # raw ext4, read-only: copy it
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.setup.kernel import KernelProduct, ensure_kernel
from lab.setup.loader import ensure_loader
from lab.setup.packages import ensure_packages
from lab.setup.plugin import ensure_plugin
from lab.setup.power import ensure_power
from lab.setup.progress import Progress
from lab.setup.root import ensure_root

__all__ = [
    "KernelProduct",
    "Products",
    "Progress",
    "ensure_all",
    "ensure_kernel",
    "ensure_loader",
    "ensure_packages",
    "ensure_plugin",
    "ensure_power",
    "ensure_root",
]


@dataclass(frozen=True)
class Products:
    """All that a machine is made of."""

    kernel: KernelProduct
    root: Path
    loader: Path
    plugin: Path
    power: Path


def ensure_all(progress: Progress | None = None) -> Products:
    """Everything, in the order in which one thing needs another; quick when it is all there."""
    progress = progress or Progress()
    ensure_packages(progress)
    loader = ensure_loader(progress)  # the quick ones first: their errors show at once
    plugin = ensure_plugin(progress)
    power = ensure_power(progress)
    root = ensure_root(progress)
    kernel = ensure_kernel(progress)
    return Products(kernel, root, loader, plugin, power)
