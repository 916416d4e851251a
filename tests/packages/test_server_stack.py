# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What servers put between a program and its disk or its peer goes on after power failures.

Goal: md RAID1 and RAID5, LVM, dm-crypt, ext4, xfs and btrfs; a bridge, a VLAN, WireGuard and a
network namespace: over ten cuts under load no record and no answer is wrong, no connection ends,
and no array, pool or file system finds an error in itself. Method: programs that end at once where
they read what was not written (lab/testbed/stack_load.py), on the disk of `rem image`. The negative
proofs are of the checks: a record that changes below a file system, and a disk that leaves an
array, are found.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lab.paths import repo_dir
from lab.testbed.server_guest import Server, booted_server, make_server_disk
from lab.testbed.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

CUTS = 10
TURNS = 3  # of each program between two cuts
TURNS_LIMIT_S = 240.0
FOLDERS = ("/srv/raid1", "/srv/raid5", "/srv/pool")
PACKAGES = (
    *("python3", "mdadm", "lvm2", "cryptsetup-bin", "btrfs-progs", "xfsprogs"),
    *("wireguard-tools", "e2fsprogs"),
)
# RAID1 with ext4; RAID5, an LVM volume and dm-crypt with xfs; btrfs over two disks.
DISKS = """set -e
mkdir -p /srv/disks /srv/raid1 /srv/raid5 /srv/pool
for n in 0 1 2 3 4 5 6; do
	truncate -s 384M /srv/disks/$n
	losetup /dev/loop$n /srv/disks/$n
done
mdadm --create /dev/md1 --run --level=1 --raid-devices=2 --assume-clean /dev/loop0 /dev/loop1
mkfs.ext4 -q /dev/md1
mount /dev/md1 /srv/raid1
mdadm --create /dev/md5 --run --level=5 --raid-devices=3 --assume-clean \
	/dev/loop2 /dev/loop3 /dev/loop4
pvcreate -q /dev/md5
vgcreate -q vg /dev/md5
lvcreate -q -n data -l 90%FREE vg
head -c 32 /dev/urandom >/root/key
cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/vg/data /root/key
cryptsetup open --key-file /root/key /dev/vg/data secret
mkfs.xfs -q /dev/mapper/secret
mount /dev/mapper/secret /srv/raid5
mkfs.btrfs -q -d raid1 -m raid1 /dev/loop5 /dev/loop6
mount /dev/loop5 /srv/pool"""
# One connection over bridge and VLAN, one besides through WireGuard.
NETWORK = """set -e
ip netns add other
ip link add br0 type bridge
ip link add near type veth peer name far netns other
ip link set near master br0
ip link set br0 up
ip link set near up
ip -n other link set far up
ip link add link br0 name br0.10 type vlan id 10
ip -n other link add link far name far.10 type vlan id 10
ip addr add 10.99.10.1/24 dev br0.10
ip -n other addr add 10.99.10.2/24 dev far.10
ip link set br0.10 up
ip -n other link set far.10 up
umask 077
for side in a b; do wg genkey >/root/$side.key; wg pubkey </root/$side.key >/root/$side.pub; done
ip link add wg0 type wireguard
wg set wg0 private-key /root/a.key listen-port 5001 \
	peer $(cat /root/b.pub) allowed-ips 10.98.0.2/32 endpoint 10.99.10.2:5002
ip addr add 10.98.0.1/24 dev wg0
ip link set wg0 up
ip -n other link add wg0 type wireguard
ip netns exec other wg set wg0 private-key /root/b.key listen-port 5002 \
	peer $(cat /root/a.pub) allowed-ips 10.98.0.1/32 endpoint 10.99.10.1:5001
ip -n other addr add 10.98.0.2/24 dev wg0
ip -n other link set wg0 up"""
PEERS = ("10.99.10.2", "10.98.0.2")
COUNTERS = ("files", *(f"ask-{peer}" for peer in PEERS))
LOAD = "/usr/local/lib/stack_load.py"
ARRAYS = "mdadm --detail --test /dev/md1 && mdadm --detail --test /dev/md5"
POOL = "btrfs scrub start -B -d -R /srv/pool && btrfs device stats --check /srv/pool"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    disk = tmp_path_factory.mktemp("server") / "server.img"
    # Twice the files of what is below, as they are files of the root.
    make_server_disk(disk, PACKAGES, root_bytes=6 << 30)
    with booted_server("t-stack", disk) as made:
        made.sh(DISKS)
        made.sh(NETWORK)
        made.machine.guest.put(repo_dir() / "lab" / "testbed" / "stack_load.py", LOAD)
        yield made


def start(server: Server, words: str, prefix: str = "") -> None:
    log = f"/run/log-{words.replace(' ', '-').replace('/', '-')}"
    server.sh(f"nohup {prefix} python3 {LOAD} {words} >{log} 2>&1 </dev/null & sleep 1")


def turns(server: Server) -> list[int]:
    """Of each program."""
    names = " ".join(f"/run/turns-{name}" for name in COUNTERS)
    return [int(word) for word in server.sh(f"tail -qn1 {names} | xargs").split()]


def said(server: Server) -> str:
    """What programs that have ended have said."""
    return server.sh("tail -qn3 /run/log-*")


def all_go_on(server: Server) -> None:
    before = turns(server)

    def done() -> bool:
        now = turns(server)
        return all(there >= here + TURNS for here, there in zip(before, now, strict=True))

    wait_until(done, f"{TURNS} turns of each program: {said(server)}", TURNS_LIMIT_S, poll_s=1.0)
    assert said(server) == ""


def test_stacks_survive_cuts(server: Server) -> None:
    for peer in PEERS:
        start(server, f"serve {peer}", "ip netns exec other")
    for peer in PEERS:
        start(server, f"ask {peer}")
    start(server, f"files {' '.join(FOLDERS)}")
    wait_until(lambda: server.sh(f"ls /run/turns-{COUNTERS[0]} || true") != "", "a turn", 120.0)
    for _ in range(CUTS):
        all_go_on(server)
        assert server.cut().stopped
        time.sleep(1.0)
        server.power_on()
    all_go_on(server)
    server.sh("pkill -f '[s]tack_load'; sync")
    server.sh(ARRAYS)
    server.sh(POOL)
    server.sh("umount /srv/raid1 && e2fsck -fn /dev/md1")
    server.sh("umount /srv/raid5 && xfs_repair -n /dev/mapper/secret")
    assert not server.machine.kernel_warnings()


def test_disk_that_leaves_an_array_is_found(server: Server) -> None:
    server.sh("mdadm /dev/md1 --fail /dev/loop1")
    assert server.sh(f"({ARRAYS}) >/dev/null 2>&1 && echo whole || echo not").endswith("not")


def test_bytes_that_change_below_a_pool_are_found(server: Server) -> None:
    server.sh("sync; dd if=/dev/zero of=/srv/disks/5 bs=1M seek=64 count=256 conv=notrunc")
    server.sh("echo 3 >/proc/sys/vm/drop_caches")
    assert server.sh(f"({POOL}) >/dev/null 2>&1 && echo whole || echo not").endswith("not")
