# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OpenLDAP over a directory in the heap: acknowledged entries survive a kill of the server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.bench.ldap import PLAIN, Server
from lab.errors import InfraError
from lab.run import end, run, spawn
from lab.setup.openldap import Ldap, LdapServer
from lab.setup.products import need

REGION_BYTES = 32 << 20
ENTRIES = 100_000  # more than there is time for: the server ends first
KILLED_AFTER = 150  # entries that were acknowledged

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def ldap() -> Ldap:
    return need(LdapServer())


def add_until_killed(ldap: Ldap, server: Server) -> set[str]:
    """Kill the server while it adds; return the names that were acknowledged by then."""
    server.start()
    argv: list[str | Path] = [ldap.client, "count", str(ENTRIES), server.uri]
    client = spawn(argv, stdout=subprocess.PIPE)
    try:
        assert client.stdout is not None
        acknowledged = [client.stdout.readline().strip() for _ in range(KILLED_AFTER)]
        server.kill()
        acknowledged += [line.strip() for line in client.stdout]
    finally:
        end(client)
    return set(acknowledged)


@pytest.mark.parametrize("policy", ["FoC+RL", "FoC+UL"])
def test_acknowledged_entries_survive_a_kill(ldap: Ldap, tmp_path: Path, policy: str) -> None:
    """One more entry may be there: the one whose answer was on its way."""
    server = Server(ldap, tmp_path, policy, REGION_BYTES)
    acknowledged = add_until_killed(ldap, server)
    server.start()
    try:
        found = server.names()
    finally:
        server.kill()
    assert len(acknowledged) >= KILLED_AFTER
    assert acknowledged <= found
    assert len(found - acknowledged) <= 1


def test_plain_memory_is_lost(ldap: Ldap, tmp_path: Path) -> None:
    """The negative proof: it is the heap, not the server, that keeps the entries."""
    server = Server(ldap, tmp_path, PLAIN, REGION_BYTES)
    acknowledged = add_until_killed(ldap, server)
    server.start()
    try:
        found = run(["ldapsearch", "-x", "-H", server.uri, "-b", "dc=remanence"], check=False)
    finally:
        server.kill()
    assert len(acknowledged) >= KILLED_AFTER
    assert not found.ok
    assert "No such object" in found.stdout + found.stderr


def test_entry_is_found_once_and_only_below_what_exists(ldap: Ldap, tmp_path: Path) -> None:
    server = Server(ldap, tmp_path, "FoC+STM", REGION_BYTES)
    server.start()
    try:
        run([ldap.client, "count", "20", server.uri])
        twice = run([ldap.client, "count", "20", server.uri], check=False)
        assert "Already exists" in twice.stderr
        assert len(server.names()) == 20
        orphan = "dn: cn=a,ou=none,dc=remanence\nobjectClass: device\ncn: a\n"
        root = ["-x", "-D", "cn=root,dc=remanence", "-w", "secret", "-H", server.uri]
        refused = run(["ldapadd", *root], stdin=orphan, check=False)
        assert "No such object" in refused.stderr
        assert server.stop()["entries"] == 21
    finally:
        server.kill()


def test_region_of_plain_memory_survives_a_stop_but_no_kill(ldap: Ldap, tmp_path: Path) -> None:
    """A region of plain memory has no log: after a kill the server refuses it and logs why."""
    server = Server(ldap, tmp_path, "FoF", REGION_BYTES)
    server.start()
    try:
        run([ldap.client, "count", "20", server.uri])
        server.stop()
        server.start()
        assert len(server.names()) == 20
    finally:
        server.kill()
    with pytest.raises(InfraError, match="that was not closed"):
        server.start()
