# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The QEMU plugin: a Rust library of the workspace."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart


@dataclass(frozen=True)
class Plugin(CargoPart):
    """The plugin of this checkout."""

    kind = "plugin"
    crate = "remanence-plugin"
    file = "libremanence_plugin.so"
