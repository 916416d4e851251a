# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two networks of one cluster in a network namespace: its clients', and its members' own.

Both are bridges that outlive the power of every node, as switches do. A host program in the
namespace reaches each node by both.
"""

from __future__ import annotations

from lab import run
from lab.machine.network import NAMESPACE_DIR, TapNetwork

CLIENTS, PEERS = "clients", "peers"  # names of the bridges, and of QEMU's networks
HOST = {CLIENTS: "10.77.0.1", PEERS: "10.78.0.1"}
FIRST_NODE = 11  # the last part of its addresses


def address_of(bridge: str, node: int) -> str:
    return f"{HOST[bridge].rpartition('.')[0]}.{FIRST_NODE + node}"


def tap_of(bridge: str, node: int) -> str:
    return f"{bridge}{node}"


def mac_of(bridge: str, node: int) -> str:
    return f"52:54:00:00:{(CLIENTS, PEERS).index(bridge):02x}:{FIRST_NODE + node:02x}"


class ClusterNetwork(TapNetwork):
    """The namespace with both bridges and a tap at each of them for every node."""

    def __init__(self, namespace: str, nodes: int) -> None:
        super().__init__(namespace)
        self.nodes = nodes

    def setup(self) -> None:
        if (NAMESPACE_DIR / self.namespace).exists():
            self.teardown()  # of one that was killed
        run.run(["ip", "netns", "add", self.namespace])
        inside = ["ip", "-netns", self.namespace]
        run.run([*inside, "link", "set", "lo", "up"])
        for bridge, host in HOST.items():
            run.run([*inside, "link", "add", bridge, "type", "bridge"])
            run.run([*inside, "addr", "add", f"{host}/24", "dev", bridge])
            run.run([*inside, "link", "set", bridge, "up"])
            for node in range(self.nodes):
                self._plug(inside, bridge, node)
        self._keep_trying()

    def _plug(self, inside: list[str], bridge: str, node: int) -> None:
        tap = tap_of(bridge, node)
        run.run([*inside, "tuntap", "add", tap, "mode", "tap"])
        run.run([*inside, "link", "set", tap, "master", bridge, "up"])
        self._wait_for(address_of(bridge, node), mac_of(bridge, node), bridge)


class NodeNetwork(TapNetwork):
    """A node's place in it; commands reach the guest by the peers' network, fence or not."""

    def __init__(self, namespace: str, node: int) -> None:
        super().__init__(namespace)
        self.node = node

    def setup(self) -> None:
        """The cluster has made it."""

    def teardown(self) -> None:
        """The cluster ends the namespace."""
        self.close()

    def netdev_of(self, bridge: str) -> str:
        tap = tap_of(bridge, self.node)
        return f"tap,id={bridge},ifname={tap},script=no,downscript=no,vhost=off"

    def address(self, guest_port: int) -> tuple[str, int]:
        return (address_of(PEERS, self.node), guest_port)
