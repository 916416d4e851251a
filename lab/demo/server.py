# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo server`: a Debian that was installed from packages goes on after power failures.

Firmware boots its disk. It has systemd, PostgreSQL on an encrypted disk, redis in a container of
podman, and nginx, which the host reads by IPv6; the host writes by a session of ssh. A TPM gives
the key of images: one in which the context of a CPU was changed is refused, and what was committed
to disk is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from lab import format as fmt
from lab.addresses import GUEST_ADDRESS, GUEST_ADDRESS6
from lab.clients.process import ClientProcess
from lab.demo.promises import Promises
from lab.record.block import decode, read_block
from lab.result import Result
from lab.testbed.server_guest import Server, server
from lab.testbed.sql_session import TABLE, SqlSession
from lab.testbed.waiting import wait_acked, wait_until

CUTS = 2
OFF_S = 2.0
ROWS, WRITES, PAGES = 20, 500, 20  # acknowledged between two cuts, at least
CLIENTS, DEPTH = 2, 4
READ_LIMIT_S = 240.0
PAGES_LIMIT_S = 120.0
DATA_BYTES = 512 << 20
PACKAGES = (
    "cryptsetup-bin", "nginx-light", "postgresql", "podman", "crun", "netavark",
    "aardvark-dns", "iptables", "redis-server",
)  # fmt: skip
# The key is on the root: this shows that an encrypted disk goes on, not who may open it.
ENCRYPTED = """set -e
systemctl stop postgresql
part=/dev/disk/by-partlabel/data
(umask 077; head -c 32 /dev/urandom >/etc/data.key)
cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $part /etc/data.key
cryptsetup open --key-file /etc/data.key $part data
mkfs.ext4 -q /dev/mapper/data
echo "data $part /etc/data.key luks" >>/etc/crypttab
echo "/dev/mapper/data /var/lib/postgresql ext4 defaults 0 2" >>/etc/fstab
systemctl daemon-reload
cp -a /var/lib/postgresql /var/lib/postgresql.old
mount /var/lib/postgresql
cp -a /var/lib/postgresql.old/. /var/lib/postgresql/
rm -rf /var/lib/postgresql.old
systemctl start postgresql
runuser -u postgres -- psql -qc '{table}'"""
# Of the system's own files, as there is no registry here to get an image from.
CONTAINER = """set -e
systemctl disable --now redis-server
tree=$(mktemp -d)
for file in /usr/bin/redis-server $(ldd /usr/bin/redis-server | grep -o '/[^ ]*'); do
	install -D "$file" "$tree$file"
done
tar -C "$tree" -c . | podman import - localhost/redis
podman run -d --name redis -p 6379:6379 localhost/redis \
	/usr/bin/redis-server --save '' --appendonly no --protected-mode no"""
CONTAINER_IS = "podman inspect --format '{{.State.Status}} {{.State.Pid}}' redis"
# A connection of nginx ends after a thousand pages, as it comes.
PAGE = """set -e
head -c 20000 /dev/urandom | base64 >/var/www/html/page.txt
echo 'keepalive_requests 1000000000; keepalive_timeout 1d;' >/etc/nginx/conf.d/keep.conf
systemctl restart nginx"""
ROWS_ARE = (
    "runuser -u postgres -- psql -qAtX -F ' '"
    " -c 'select count(*), coalesce(max(n), 0) from promises'"
)
TRUST = "cat /sys/kernel/remanence/trust"
LOG_LINES = "journalctl -k -b -o cat | grep -c '^remanence: resume ' || true"


@dataclass
class Work:
    """Clients on the host, of which none connects a second time."""

    sql: SqlSession
    redis: ClientProcess
    pages: ClientProcess

    def more(self) -> bool:
        """Each of them gets more answers."""
        before = self.pages.ask("status")["acked"]
        wait_acked(self.redis, WRITES)

        def read() -> bool:
            status = self.pages.ask("status")
            return bool(status["failures"] or status["acked"] >= before + PAGES)

        wait_until(read, "pages are read", PAGES_LIMIT_S)
        return self.sql.more(ROWS)

    @property
    def failures(self) -> list[str]:
        found = [*self.redis.ask("status")["failures"], *self.pages.ask("status")["failures"]]
        return found + ([] if self.sql.lives else ["the session by ssh has ended"])


@contextmanager
def working(guest: Server) -> Iterator[Work]:
    """Clients of the server's services."""
    network = guest.machine.network
    with ExitStack() as stack:
        sql = stack.enter_context(closing(SqlSession(guest.machine)))
        words = {"protocol": "redis", "host": GUEST_ADDRESS, "clients": CLIENTS, "depth": DEPTH}
        redis = stack.enter_context(ClientProcess.beside(network, "writers", **words))
        words = {"host": GUEST_ADDRESS6, "path": "/page.txt"}
        pages = stack.enter_context(ClientProcess.beside(network, "pages", **words))
        yield Work(sql, redis, pages)


def play(name: str, print_line: Callable[[str], None]) -> Result:
    """Run all of it on a machine that is destroyed afterwards."""
    promises = Promises(print_line, Result("demo-server"))
    with server(name, PACKAGES, DATA_BYTES) as guest:
        _install(guest, promises)
        with working(guest) as work:
            work.more()
            units, found = guest.units, Found()
            for number in range(1, CUTS + 1):
                found += _again(guest, work, promises, number)
            changed = len(units ^ guest.units)
            promises.check(not changed, f"the same {len(units)} services run")
            promises.check(guest.state == "running", "systemd finds nothing wrong")
            acked = _forge(guest, work, promises)
        entered, lost = _refused(guest, promises, acked)
    promises.end()
    result = promises.result
    result.add("cuts", CUTS, "cuts", "counted")
    result.add("resumed", int(found.resumed == CUTS), "1", "counted")
    result.add("lost_writes", found.lost + lost, "writes", "counted")
    result.add("units_changed", changed, "units", "counted")
    result.add("forged_entered", int(entered), "images", "counted")
    return result


@dataclass(frozen=True)
class Found:
    """After cuts: how many were survived, and what was lost in them."""

    resumed: int = 0
    lost: int = 0

    def __add__(self, other: Found) -> Found:
        return Found(self.resumed + other.resumed, self.lost + other.lost)


def _install(guest: Server, promises: Promises) -> None:
    promises.check(guest.state == "running", "firmware boots the disk; systemd finds nothing wrong")
    armed = bool(guest.status["armed"]) and guest.sh(TRUST).startswith("on ")
    promises.check(armed, "the machine is armed, and its images are authenticated")
    mode = guest.stop_mode
    promises.check(mode == "fast", f"no driver keeps it from the short way to stop: {mode}")
    guest.sh(ENCRYPTED.format(table=TABLE))
    guest.sh(CONTAINER)
    guest.sh(PAGE)
    promises.print_line(
        "PostgreSQL is on an encrypted disk, redis in a container, nginx serves by IPv6; a session"
        " of ssh adds rows."
    )


def _again(guest: Server, work: Work, promises: Promises, number: int) -> Found:
    """One cut under load."""
    boot_id, container = guest.boot_id, guest.sh(CONTAINER_IS)
    lines = int(guest.sh(LOG_LINES))
    cut = guest.cut()
    work.redis.ask("hold", at_ns=time.monotonic_ns())
    rows = work.sql.acked
    took = "not within the hold-up" if cut.stopped_after_ns is None else (
        f"in {cut.stopped_after_ns / 1e6:.1f} ms"
    )  # fmt: skip
    promises.print_line(f"Cut {number}: PWR_OK drops; stopped {took}; the power goes.")
    time.sleep(OFF_S)
    guest.power_on()
    same = guest.boot_id == boot_id and guest.sh(CONTAINER_IS) == container
    promises.check(same, f"the system goes on, and so does its container: {container}")
    promises.check(int(guest.sh(LOG_LINES)) == lines + 1, "the journal has one line more of it")
    lost = _lost_keys(work, promises)
    work.redis.ask("resume")
    more = work.more() and not work.failures
    promises.check(more, f"all connections go on{''.join(f': {one}' for one in work.failures)}")
    missing = _missing_rows(guest, rows)
    promises.check(not missing, f"each of {rows} rows that psql had acknowledged is there")
    return Found(int(same), lost + missing)


def _lost_keys(work: Work, promises: Promises) -> int:
    found = work.redis.ask("verify", READ_LIMIT_S * 2, limit_s=READ_LIMIT_S)
    lost = int(found.get("lost", found["acked"]))
    promises.check(
        found["drained"] and not lost,
        f"each of {found['acked']} writes that redis had acknowledged is there",
    )
    return lost


def _missing_rows(guest: Server, acked: int) -> int:
    """Of those that were acknowledged; numbers are given without gaps."""
    count, newest = (int(word) for word in guest.sh(ROWS_ARE).split())
    return max(acked - newest, 0) + newest - count


def _forge(guest: Server, work: Work, promises: Promises) -> int:
    """Cut, and change where a CPU goes on, which no checksum covers; returns the rows that were
    acknowledged."""
    work.sql.more(ROWS)
    guest.cut()
    nvram = guest.machine.files.nvram(guest.machine.config)
    newest = decode(read_block(nvram)).newest
    assert newest is not None
    at = fmt.CONST["REM_BODY_OFFSET"] + newest.index * fmt.CONST["REM_BODY_STRIDE_BYTES"]
    with nvram.open("r+b") as file:
        file.seek(at)
        body = fmt.parse("rem_body", file.read(fmt.size_of("rem_body")))
        file.seek(body.context_phys - body.region_phys)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes((byte ^ 1,)))
    promises.print_line("The power goes again, and meanwhile somebody changes where a CPU goes on.")
    return work.sql.acked


def _refused(guest: Server, promises: Promises, acked: int) -> tuple[bool, int]:
    """Whether the forged image was entered, and how many rows are missing after it."""
    reason = guest.power_on_cold()
    promises.check(reason == "cold-forged", f"the image is refused by name: {reason}")
    promises.check(guest.state == "running", "after a cold boot systemd finds nothing wrong")
    missing = _missing_rows(guest, acked)
    promises.check(not missing, f"each of {acked} rows is there, from the encrypted disk")
    return reason == "resumed", missing
