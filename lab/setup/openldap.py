# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OpenLDAP's slapd with our back end, made when first needed.

packages            Debian's slapd and the packages to configure its source; nothing is started
CACHE/openldap/KEY  slapd's own headers, configured as Debian configures them
CACHE/ldap/KEY      back_nvheap.so and the client of `heap/ldap`
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup.apt import installed_versions
from lab.setup.fetch import unpack_source
from lab.setup.heap import HeapLibrary
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

SERVER = "slapd"
# Parts of Debian's configuration that need further packages and change none of slapd's structures.
WITHOUT = ("--disable-perl", "--disable-sql", "--disable-argon2", "--disable-wrappers")
CPPFLAGS = "-D_GNU_SOURCE -D_FILE_OFFSET_BITS=64"
HEADERS = ("include", "libraries", "servers/slapd", "servers/slapd/slapi")
MODULE_SOURCES = ("back_nvheap.c", "in_heap.c", "in_memory.c")
# slapd's own tables begin with one brace for a structure in a union.
WARNINGS = ("-Wall", "-Wextra", "-Wno-missing-braces", "-Werror")


@dataclass(frozen=True)
class Ldap:
    folder: Path

    @property
    def client(self) -> Path:
        return self.folder / "client"


@dataclass(frozen=True)
class LdapServer(Part[Ldap]):
    """The module for the slapd of this machine, and the client."""

    groups = (Group.COMPILER, Group.LDAP, Group.SOURCES)

    def requires(self) -> tuple[Part[Path]]:
        return (HeapLibrary(),)

    def make(self, site: Site) -> Ldap:
        version = installed_versions([SERVER])[SERVER]
        headers = site.product(
            "openldap", headers_key(version), lambda into: _configure(version, into)
        )
        library = site[HeapLibrary()]
        inputs = Inputs("ldap").add("heap", library.parent.name).add("slapd", version)
        for folder in ("heap/ldap", "heap/c/include"):
            inputs.add_path(repo_dir() / folder, folder)

        def build(into: Path) -> None:
            with step("slapd's back end"):
                _build(headers, library, into)

        return Ldap(site.product("ldap", inputs.key(), build))


def headers_key(version: str) -> str:
    inputs = Inputs("openldap").add("version", version).add("without", " ".join(WITHOUT))
    return inputs.add("headers", " ".join(HEADERS)).key()


def _configure(version: str, into: Path) -> None:
    log = cache_dir() / "logs" / "openldap.log"
    with (
        tempfile.TemporaryDirectory(prefix="openldap-", dir=cache_dir()) as scratch,
        step(f"OpenLDAP: headers of {version}"),
    ):
        folder = Path(scratch)
        source, build = unpack_source("openldap", version, folder), folder / "build"
        build.mkdir()
        options = shlex.split(
            (source / "debian" / "configure.options").read_text(encoding="utf-8"), comments=True
        )
        own = [*WITHOUT, "--with-odbc=auto", "--prefix=/usr", f"CPPFLAGS={CPPFLAGS}"]
        argv: list[str | Path] = [source / "configure", *options, *own]
        stream(argv, cwd=build, log=log, what="configuring OpenLDAP")
        stream(["make", "-C", "include"], cwd=build, log=log, what="OpenLDAP's headers")
        for name in HEADERS:
            for tree in (source, build):
                _copy_headers(tree / name, into / name)


def _copy_headers(source: Path, into: Path) -> None:
    for header in source.glob("*.h") if "servers" in source.parts else source.rglob("*.h"):
        to = into / header.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(header, to)


def _build(headers: Path, library: Path, into: Path) -> None:
    repo, log = repo_dir(), cache_dir() / "logs" / "openldap.log"
    ldap = repo / "heap" / "ldap"
    places = [word for name in HEADERS for word in ("-isystem", headers / name)]
    module: list[str | Path] = ["-shared", "-fPIC", "-DSLAPD_IMPORT", *CPPFLAGS.split(), *places]
    own = [ldap / name for name in MODULE_SOURCES]
    libraries: list[str | Path] = ["-Wl,--exclude-libs,ALL", library, "-lpthread", "-ldl", "-lm"]
    compiler: list[str | Path] = ["gcc", "-O2", *WARNINGS]
    argv: list[str | Path] = [*compiler, *module, "-I", repo / "heap" / "c" / "include"]
    argv += ["-o", into / "back_nvheap.so", *own, *libraries]
    stream(argv, log=log, what="building slapd's back end")
    argv = [*compiler, "-o", into / "client", ldap / "client.c", "-lldap", "-llber"]
    stream(argv, log=log, what="building the LDAP client")
