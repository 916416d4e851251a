# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian's slapd with our directory: a server for each kind of memory, and times of insertions."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import quote

from lab.errors import InfraError
from lab.run import end, find_tool, run, spawn
from lab.setup.openldap import Ldap

SUFFIX = "dc=remanence"
PLAIN = "none"  # the policy that is plain memory
ANSWER_LIMIT_S = 120.0  # for the start of a server on a busy host
LIMIT_S = 3600.0
CONFIGURATION = """\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath {modules}
moduleload back_nvheap.so
database nvheap
suffix "{suffix}"
rootdn "cn=root,{suffix}"
rootpw secret
sizelimit unlimited
region {folder}/region
size {size_bytes}
policy {policy}
statistics {folder}/statistics
"""


class Server:
    """A slapd on a folder; its region survives it, unless the policy is PLAIN."""

    def __init__(self, ldap: Ldap, folder: Path, policy: str, size_bytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        text = CONFIGURATION.format(
            modules=ldap.folder, suffix=SUFFIX, folder=folder, size_bytes=size_bytes, policy=policy
        )
        (folder / "slapd.conf").write_text(text, encoding="utf-8")
        self.process: subprocess.Popen[str] | None = None

    @property
    def uri(self) -> str:
        return "ldapi://" + quote(str(self.folder / "socket"), safe="")

    def start(self) -> None:
        """Start it and return when it answers."""
        (self.folder / "socket").unlink(missing_ok=True)
        argv: list[str | Path] = [
            "slapd",
            "-d",
            "none",  # only what is always logged, e.g. why a database does not open
            "-f",
            self.folder / "slapd.conf",
            "-h",
            self.uri,
        ]
        with (self.folder / "log").open("a", encoding="utf-8") as log:
            self.process = spawn(argv, stdout=log, stderr=log)
        # The tool waits for the socket by itself, one second at a time.
        ask = ["ldapwhoami", "-x", "-H", self.uri]
        waits = int(ANSWER_LIMIT_S)
        for _ in range(waits):
            if run(ask, check=False).ok:
                return
            try:
                self.process.wait(1)
            except subprocess.TimeoutExpired:
                continue
            break
        text = (self.folder / "log").read_text(encoding="utf-8").strip()
        self.kill()
        raise InfraError(f"slapd does not answer: {text or 'its log is empty'}")

    def stop(self) -> dict[str, int]:
        """Ask it to end; return its statistics."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(ANSWER_LIMIT_S)
        end(self.process)
        words = (self.folder / "statistics").read_text(encoding="utf-8").split()
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))

    def kill(self) -> None:
        """End it as by a crash, without running any of its code."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        end(self.process)

    def names(self) -> set[str]:
        """Return the `uid` of every person that a search finds, by OpenLDAP's own client."""
        argv = ["ldapsearch", "-x", "-LLL", "-o", "ldif-wrap=no", "-H", self.uri]
        out = run([*argv, "-b", SUFFIX, "(objectClass=inetOrgPerson)", "uid"]).stdout
        return {line[5:] for line in out.splitlines() if line.startswith("uid: ")}


@dataclass(frozen=True)
class Inserted:
    """Times of insertions at one server: the client's by batch, and the back end's (median)."""

    client_ns: list[float]
    back_end_ns: int
    entries: int


def insert(
    ldap: Ldap, folder: Path, policies: list[str], entries: int, batch: int, size_bytes: int
) -> dict[str, Inserted]:
    """Insert the same entries into an empty server for each policy, batches in turn."""
    if find_tool("slapd") is None:
        raise InfraError("no slapd: run `./rem doctor`")
    servers = [Server(ldap, folder / str(i), name, size_bytes) for i, name in enumerate(policies)]
    started: list[Server] = []
    try:
        for server in servers:
            server.start()
            started.append(server)
        words = ["time", str(batch), str(entries // batch), *(server.uri for server in servers)]
        lines = run([ldap.client, *words], timeout_s=LIMIT_S, what="LDAP client").stdout
        statistics = [server.stop() for server in servers]
    except BaseException:
        for server in started:
            server.kill()
        raise
    times: list[list[float]] = [[] for _ in servers]
    for line in lines.splitlines():
        place, ns = line.split()
        times[int(place)].append(float(ns))
    return {
        name: Inserted(times[i], statistics[i]["add_median_ns"], statistics[i]["entries"])
        for i, name in enumerate(policies)
    }


def ratio(above: list[float], below: list[float]) -> tuple[float, float]:
    """Return the median of the ratios of adjacent batches, and its spread in percent."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    middle = median(ratios)
    low, _, high = quantiles(ratios, n=4)
    return middle, (high - low) / 2 / middle * 100
