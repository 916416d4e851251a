# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Three nodes that run replicated services: redis with its sentinels, and etcd.

Each node is a guest of Debian on a host of its own (`rem-vm`), with a supply of its own, so that
one, two or all can lose power. Clients come by one network, and members talk by another: where a
node has a fence, its clients come when `rem-up-to-date` lets them in.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lab.clients.etcd import PORT as ETCD
from lab.clients.leases import CLOCK_LIMIT_S
from lab.clients.process import ClientProcess
from lab.clients.sentinels import REDIS, SENTINEL, SERVICE
from lab.machine.files import MachineFiles
from lab.machine.network import TapNetwork, namespace_name
from lab.paths import repo_dir
from lab.setup.products import MACHINE, need_all
from lab.setup.vm import CLUSTER_ROOT
from lab.testbed.cluster_network import (
    CLIENTS,
    PEERS,
    ClusterNetwork,
    NodeNetwork,
    address_of,
    mac_of,
)
from lab.testbed.vm_host import DEBIAN, Cut, Fence, VmHost

NODES = 3
RAM_BYTES = 384 << 20
# Three hosts share the CPUs of this one: a save may wait for others.
HOLD_UP_US = 1_000_000
ETCD_PEERS = 2380
# Without power for so long, a member is replaced. Nodes execute under TCG on shared CPUs, so these
# are ten times those of a data centre.
REDIS_DOWN_MS = 3000
ETCD_HEARTBEAT_MS, ETCD_ELECTION_MS = 500, 5000
UP_LIMIT_S = 240.0
HELPERS = repo_dir() / "vm" / "fence"
FOLLOW_RTC, CLOCK_LOG = "rem-follow-rtc", "/run/clock.log"


def peers_address(node: int) -> str:
    return address_of(PEERS, node)


def redis_words(node: int) -> str:
    """redis keeps all in memory: what a node has after a cut is what its memory has."""
    words = (
        f"redis-server --port {REDIS} --bind 0.0.0.0 --protected-mode no --daemonize yes "
        f"--save '' --appendonly no --dir /run --enable-debug-command yes "
        f"--replica-announce-ip {peers_address(node)} --repl-backlog-size 16mb "
        f"--repl-diskless-load on-empty-db --logfile /run/redis.log"
    )
    return words + (f" --replicaof {peers_address(0)} {REDIS}" if node else "")


def sentinel_lines(node: int) -> list[str]:
    return [
        f"port {SENTINEL}",
        "bind 0.0.0.0",
        "protected-mode no",
        "daemonize yes",
        "dir /run",
        "logfile /run/sentinel.log",
        f"sentinel announce-ip {peers_address(node)}",
        f"sentinel monitor {SERVICE} {peers_address(0)} {REDIS} {NODES // 2 + 1}",
        f"sentinel down-after-milliseconds {SERVICE} {REDIS_DOWN_MS}",
        f"sentinel failover-timeout {SERVICE} 20000",
    ]


def etcd_words(node: int) -> str:
    members = ",".join(f"n{one}=http://{peers_address(one)}:{ETCD_PEERS}" for one in range(NODES))
    return (
        f"etcd --name n{node} --data-dir /var/lib/rem-etcd --initial-cluster {members} "
        f"--listen-peer-urls http://{peers_address(node)}:{ETCD_PEERS} "
        f"--initial-advertise-peer-urls http://{peers_address(node)}:{ETCD_PEERS} "
        f"--listen-client-urls http://0.0.0.0:{ETCD} "
        f"--advertise-client-urls http://{address_of(CLIENTS, node)}:{ETCD} "
        f"--heartbeat-interval {ETCD_HEARTBEAT_MS} --election-timeout {ETCD_ELECTION_MS} "
        f"--pre-vote --initial-cluster-state new"
    )


@dataclass
class Node(VmHost):
    """One host with one guest of Debian, in the networks of its cluster."""

    namespace: str = ""
    index: int = 0
    has_fence: bool = True
    asks_for_clock: bool = True  # the fence

    @property
    def address(self) -> str:
        return peers_address(self.index)

    def make_network(self) -> TapNetwork:
        return NodeNetwork(self.namespace, self.index)

    def cards(self) -> list[str]:
        assert isinstance(self.network, NodeNetwork)
        words = []
        for bridge in (PEERS, CLIENTS):
            words += ["-netdev", self.network.netdev_of(bridge)]
            card = f"virtio-net-pci,netdev={bridge},mac={mac_of(bridge, self.index)},romfile="
            words += ["-device", card]
        return words

    def fence(self) -> Fence | None:
        if not self.has_fence:
            return None
        program = str(HELPERS / "rem-up-to-date")
        words = ["--redis", f"{SERVICE}:{REDIS}:{SENTINEL}", "--etcd", str(ETCD)]
        words += ["--clock", str(CLOCK_LIMIT_S)] if self.asks_for_clock else []
        members = [peers_address(self.index), *map(peers_address, _others(self.index))]
        return Fence(CLIENTS, (program, *words, *members))

    def set_fence(self, has_fence: bool = True, asks_for_clock: bool = True) -> None:
        """From the next power-on."""
        self.has_fence, self.asks_for_clock = has_fence, asks_for_clock
        self.guests = [replace(guest, fence=self.fence()) for guest in self.guests]
        self.write_config()

    def start_services(self) -> None:
        own = address_of(CLIENTS, self.index)
        conf = "\\n".join(sentinel_lines(self.index))
        self.run_in_guest(f"ip link set eth1 up && ip addr add {own}/24 dev eth1")
        self.run_in_guest(redis_words(self.index))
        self.run_in_guest(
            f"printf '{conf}\\n' >/run/sentinel.conf && redis-server /run/sentinel.conf --sentinel"
        )
        self.run_in_guest(f"{etcd_words(self.index)} </dev/null >/run/etcd.log 2>&1 &")
        self.guest.put(HELPERS / FOLLOW_RTC, f"/run/{FOLLOW_RTC}")
        self.run_in_guest(f"/run/{FOLLOW_RTC} </dev/null >{CLOCK_LOG} 2>&1 &")

    # The guest's time of day.

    def follow_rtc(self, does: bool) -> None:
        """Whether it is set where the RTC says otherwise."""
        self.run_in_guest(f"pkill -{'CONT' if does else 'STOP'} -f '/run/[r]em-follow-rtc'")

    def step_clock(self, by_s: int) -> None:
        """It jumps, and the RTC does not."""
        self.run_in_guest(f"date -s @$(( $(date +%s) + {by_s} ))")

    def clock_steps_s(self) -> list[float]:
        """By how much it has been set, each time."""
        lines = self.run_in_guest(f"cat {CLOCK_LOG}").stdout.splitlines()
        return [int(line.split()[-2]) / 1000 for line in lines if line.startswith("set, ")]


def _others(node: int) -> list[int]:
    return [one for one in range(NODES) if one != node]


@dataclass
class Cluster:
    """Its network and nodes; `running` makes one."""

    network: ClusterNetwork
    nodes: list[Node]

    def _each(self, what: Callable[[Node], Any], nodes: Iterable[int]) -> list[Any]:
        """At once on each of these nodes."""
        chosen = [self.nodes[index] for index in nodes]
        with ThreadPoolExecutor(len(chosen)) as pool:
            return list(pool.map(what, chosen))

    def cut(self, nodes: Iterable[int], announced: bool = True) -> list[Cut]:
        """The power of these nodes fails at once."""

        def one(node: Node) -> Cut:
            node.guest.close()
            return node.cut(announced)

        return self._each(one, nodes)

    def power_on(self, nodes: Iterable[int]) -> list[dict[str, Any]]:
        """Their power returns; the status of each node's guest."""
        return [status[DEBIAN] for status in self._each(Node.power_on, nodes)]

    def start(self, nodes: Iterable[int]) -> None:
        """Their services, after a cold boot."""
        self._each(_start, nodes)

    def fenced(self) -> list[int]:
        """Nodes whose clients are kept away."""
        return [node.index for node in self.nodes if node.is_on and node.status()[DEBIAN]["fenced"]]

    def clients(self, kind: str, **options: object) -> ClientProcess:
        """`replicas`: of redis. `registers`: of etcd."""
        nodes = ",".join(address_of(CLIENTS, node) for node in range(NODES))
        return ClientProcess.beside(self.network, kind, nodes=nodes, **options)


@contextmanager
def running(name: str) -> Iterator[Cluster]:
    """All nodes are on, with their services; destroyed at the end."""
    need_all([MACHINE])  # for the network
    with ExitStack() as stack:
        files = MachineFiles.of(name)
        files.directory.mkdir(parents=True, exist_ok=True)  # names the namespace
        stack.callback(shutil.rmtree, files.directory, ignore_errors=True)
        network = ClusterNetwork(namespace_name(files), NODES)
        network.setup()
        stack.callback(network.teardown)
        nodes = [stack.enter_context(_node(name, network, index)) for index in range(NODES)]
        cluster = Cluster(network, nodes)
        cluster.power_on(range(NODES))
        cluster.start(range(NODES))
        yield cluster


def _node(name: str, network: ClusterNetwork, index: int) -> Node:
    return Node(
        f"{name}-{index}",
        root=CLUSTER_ROOT,
        hold_up_us=HOLD_UP_US,
        ram_bytes=RAM_BYTES,
        namespace=network.namespace,
        index=index,
    )


def _start(node: Node) -> None:
    node.wait_up(UP_LIMIT_S)
    node.start_services()
