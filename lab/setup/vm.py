# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem-vm`: guests that outlive the power of their host."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import CargoPart
from lab.setup.root import Root

CLUSTER_ROOT = Root.having("etcd-server")  # of a node's guest; redis is in every root


@dataclass(frozen=True)
class RemVm(CargoPart):
    """The host's program."""

    kind = "vm"
    crate = "remanence-vm"
    file = "rem-vm"
