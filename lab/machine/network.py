# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The machine's network, which survives its QEMU as a real switch survives a server.

Tap mode: a network namespace of the machine's own with a persistent tap device. QEMU and the
host's clients are inside, so every machine has the same two addresses. Host programs need not be
in the namespace themselves: a socket belongs to where it was made, and connect() makes it there.

User mode (without the permissions for a tap): QEMU's own network stack, which ends with QEMU and
with it the host's side of each TCP connection; only forwarded ports can be reached.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import subprocess
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab import run
from lab.addresses import GUEST_ADDRESS, GUEST_ADDRESS6, HOST_ADDRESS, HOST_ADDRESS6, NETWORK
from lab.errors import InfraError, RemError, UsageError
from lab.machine.config import Forward, MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.qemu_parts import MAC

TAP = "rem0"
NAMESPACE_DIR = Path("/run/netns")
CLONE_NEWNET = 0x40000000
SSH_PORT = 22

# The newest retransmission of a host's TCP may be this late when power returns (since Linux 6.15).
RTO_MAX_MS = 1000
# With that bound the default of 15 retries would give up after 14 s without power. The maximum
# lasts for more than four minutes.
RETRIES = 255


class Network(ABC):
    """The network of one machine."""

    mode: str
    note: str | None = None  # a line for the user

    @abstractmethod
    def setup(self) -> None: ...

    @abstractmethod
    def teardown(self) -> None: ...

    @abstractmethod
    def netdev(self) -> str | None:
        """QEMU's -netdev argument."""

    @abstractmethod
    def address(self, guest_port: int) -> tuple[str, int]:
        """The address at which a host program (in the namespace, if any) reaches a guest's port."""

    def exec_prefix(self) -> list[str]:
        """The beginning of a command line that runs where the guest can be reached."""
        return []

    def make_socket(self) -> socket.socket:
        """An unconnected TCP socket that can reach the guest."""
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def connect(self, guest_port: int, limit_s: float = 10.0) -> socket.socket:
        """A connection to the guest that stays alive while the machine is off (tap mode)."""
        sock = self.make_socket()
        try:
            sock.settimeout(limit_s)
            sock.connect(self.address(guest_port))
            sock.settimeout(None)
        except OSError:
            sock.close()
            raise
        return sock


def namespace_name(files: MachineFiles) -> str:
    """`rem-NAME`; with the directory's identity where the state is not at the default place."""
    own_place = os.environ.get("REM_STATE") or os.environ.get("XDG_STATE_HOME")
    return f"rem-{files.name}-{files.identity}" if own_place else f"rem-{files.name}"


class TapNetwork(Network):
    mode = "tap"

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        # setns() changes one thread only; this one does nothing but make sockets.
        self._maker: ThreadPoolExecutor | None = None

    def setup(self) -> None:
        """Make namespace and tap if they do not exist."""
        if not (NAMESPACE_DIR / self.namespace).exists():
            run.run(["ip", "netns", "add", self.namespace])
        inside = ["ip", "-netns", self.namespace]
        links = run.run([*inside, "-brief", "link", "show"]).stdout
        if not any(line.split("@")[0].split()[0] == TAP for line in links.splitlines() if line):
            self._make_tap(inside)

    def _make_tap(self, inside: list[str]) -> None:
        run.run([*inside, "tuntap", "add", TAP, "mode", "tap"])
        run.run([*inside, "link", "set", "lo", "up"])
        run.run([*inside, "addr", "add", f"{HOST_ADDRESS}/24", "dev", TAP])
        run.run([*inside, "link", "set", TAP, "up"])
        self._wait_for(GUEST_ADDRESS, MAC, TAP)
        self._keep_trying()

    def add_ipv6(self) -> None:
        """The host has an address of IPv6, too, and waits for the guest's as for the other."""
        words = ["addr", "replace", f"{HOST_ADDRESS6}/64", "dev", TAP, "nodad"]
        run.run(["ip", "-netns", self.namespace, *words])
        self._wait_for(GUEST_ADDRESS6, MAC, TAP)

    def _wait_for(self, address: str, mac: str, link: str) -> None:
        """A guest without power answers no ARP; its peers must not give up for that."""
        words = ["neigh", "replace", address, "lladdr", mac, "dev", link, "nud", "permanent"]
        run.run(["ip", "-netns", self.namespace, *words])

    def _keep_trying(self) -> None:
        """TCP of the host's programs outlives a long time without power."""
        knob = "/proc/sys/net/ipv4/tcp_rto_max_ms"
        retries = "/proc/sys/net/ipv4/tcp_retries2"
        script = f"test ! -e {knob} || echo {RTO_MAX_MS} > {knob}; echo {RETRIES} > {retries}"
        run.run([*self.exec_prefix(), "sh", "-c", script])

    def close(self) -> None:
        """End what this object has, and leave the namespace."""
        if self._maker is not None:
            self._maker.shutdown()
            self._maker = None

    def teardown(self) -> None:
        self.close()
        if (NAMESPACE_DIR / self.namespace).exists():
            run.run(["ip", "netns", "del", self.namespace])

    def exec_prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.namespace]

    def netdev(self) -> str:
        return f"tap,id=rem-net,ifname={TAP},script=no,downscript=no,vhost=off"

    def address(self, guest_port: int) -> tuple[str, int]:
        return (GUEST_ADDRESS, guest_port)

    def make_socket(self) -> socket.socket:
        if self._maker is None:
            self._maker = ThreadPoolExecutor(
                1, "rem-netns", initializer=_enter_namespace, initargs=(self.namespace,)
            )
        return self._maker.submit(socket.socket, socket.AF_INET, socket.SOCK_STREAM).result()


def _enter_namespace(namespace: str) -> None:
    """Move the calling thread into a network namespace (os.setns() comes with Python 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(NAMESPACE_DIR / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"setns({namespace}): {os.strerror(error)}")
    finally:
        os.close(fd)


class UserNetwork(Network):
    mode = "user"

    def __init__(self, ssh_port: int, forwards: tuple[Forward, ...], note: str | None) -> None:
        self.ssh_port = ssh_port
        self.forwards = (Forward(ssh_port, SSH_PORT), *forwards)
        self.note = note

    def setup(self) -> None:
        pass

    def teardown(self) -> None:
        pass

    def netdev(self) -> str:
        forwards = "".join(
            f",hostfwd=tcp:127.0.0.1:{forward.host_port}-{GUEST_ADDRESS}:{forward.guest_port}"
            for forward in self.forwards
        )
        # A disk of its own may ask for an address.
        dhcp = f"dhcpstart={GUEST_ADDRESS}"
        return f"user,id=rem-net,net={NETWORK},host={HOST_ADDRESS},{dhcp}{forwards}"

    def address(self, guest_port: int) -> tuple[str, int]:
        for forward in self.forwards:
            if forward.guest_port == guest_port:
                return ("127.0.0.1", forward.host_port)
        raise UsageError(
            f"port {guest_port} of the guest cannot be reached by user-mode networking: "
            f"start the machine with --forward HOST:{guest_port}, or as root"
        )


class NoNetwork(Network):
    mode = "none"

    def setup(self) -> None:
        pass

    def teardown(self) -> None:
        pass

    def netdev(self) -> None:
        return None

    def address(self, guest_port: int) -> tuple[str, int]:
        raise UsageError("this machine was made without a network")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _tap_obstacle(files: MachineFiles) -> str | None:
    """Why no namespace can be made here; None if it was made."""
    network = TapNetwork(namespace_name(files))
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun is missing"
    try:
        network.setup()
    except (RemError, OSError, subprocess.SubprocessError) as err:
        with contextlib.suppress(RemError, OSError, subprocess.SubprocessError):
            network.teardown()
        return str(err)
    return None


def make_network(config: MachineConfig, files: MachineFiles) -> Network:
    """The network of a new machine; `auto` prefers the tap."""
    if config.network == "none":
        return NoNetwork()
    obstacle = "as requested" if config.network == "user" else _tap_obstacle(files)
    if obstacle is None:
        return TapNetwork(namespace_name(files))
    if config.network == "tap":
        raise InfraError(f"no tap network: {obstacle}; try --network user")
    note = f"user-mode networking ({obstacle}): connections from the host end when the power is cut"
    return UserNetwork(_free_port(), config.forwards, note)


def network_from_state(state: dict[str, object], config: MachineConfig) -> Network:
    """The network of an existing machine; setup() restores what the host's reboot removed."""
    match state.get("mode"):
        case "tap":
            return TapNetwork(str(state["namespace"]))
        case "user":
            note = None if state["note"] is None else str(state["note"])
            return UserNetwork(int(str(state["ssh_port"])), config.forwards, note)
        case _:
            return NoNetwork()


def network_to_state(network: Network) -> dict[str, object]:
    state: dict[str, object] = {"mode": network.mode, "note": network.note}
    if isinstance(network, TapNetwork):
        state["namespace"] = network.namespace
    if isinstance(network, UserNetwork):
        state["ssh_port"] = network.ssh_port
    return state
