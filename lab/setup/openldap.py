# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OpenLDAP's slapd with a back end of ours, made when it is asked for.

packages            Debian's slapd and what its source needs to be configured; nothing is started
CACHE/openldap/KEY  slapd's own headers, configured as Debian configures them
CACHE/ldap/KEY      back_nvheap.so and the client of `heap/ldap`
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir
from lab.run import run, stream
from lab.setup import cache
from lab.setup.fetch import fetch_source
from lab.setup.heap import build_c_library, heap_key
from lab.setup.host import explain, is_root
from lab.setup.inputs import Inputs
from lab.setup.packages import apt_get, installed_versions
from lab.setup.progress import Progress
from lab.setup.rust import ensure_rust

SERVER = "slapd"
PACKAGES = (
    SERVER,
    "ldap-utils",
    "libldap-dev",
    "libltdl-dev",
    "libsasl2-dev",
    "libgnutls28-dev",
    "dpkg-dev",
)
# What Debian's slapd must not do when it is installed: make a directory of its own and serve it.
NO_CONFIGURATION = "slapd slapd/no_configuration boolean true\n"
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


def ensure_ldap(progress: Progress) -> Ldap:
    """The module for the slapd of this machine, and the client."""
    _ensure_packages(progress)
    version = installed_versions([SERVER])[SERVER]
    headers = cache.product(
        "openldap", headers_key(version), lambda into: _configure(version, into, progress)
    )
    key = Inputs("ldap").add("heap", heap_key(ensure_rust(progress))).add("slapd", version).key()

    def make(into: Path) -> None:
        with progress.step("slapd's back end"):
            _build(headers, into)

    return Ldap(cache.product("ldap", key, make))


def headers_key(version: str) -> str:
    inputs = Inputs("openldap").add("version", version).add("without", " ".join(WITHOUT))
    return inputs.add("headers", " ".join(HEADERS)).key()


def _ensure_packages(progress: Progress) -> None:
    have = installed_versions(list(PACKAGES))
    missing = [name for name in PACKAGES if name not in have]
    if not missing:
        return
    if not is_root():
        raise InfraError("as root: apt-get install --no-install-recommends " + " ".join(missing))
    with progress.step(f"OpenLDAP: packages ({len(missing)} missing)"):
        try:
            if SERVER in missing:
                run(["debconf-set-selections"], stdin=NO_CONFIGURATION)
            apt_get("update")
            apt_get("install", "--no-install-recommends", *missing)
        except InfraError as error:
            raise explain(error, "installing OpenLDAP") from error


def _configure(version: str, into: Path, progress: Progress) -> None:
    log = cache_dir() / "logs" / "openldap.log"
    with (
        tempfile.TemporaryDirectory(prefix="openldap-", dir=cache_dir()) as scratch,
        progress.step(f"OpenLDAP: headers of {version}"),
    ):
        folder = Path(scratch)
        fetch_source("openldap", version, folder)
        (description,) = folder.glob("*.dsc")
        source, build = folder / "source", folder / "build"
        argv: list[str | Path] = ["dpkg-source", "--no-check", "-x", description, source]
        run(argv, what="unpacking OpenLDAP")
        build.mkdir()
        asked = shlex.split(
            (source / "debian" / "configure.options").read_text(encoding="utf-8"), comments=True
        )
        own = [*WITHOUT, "--with-odbc=auto", "--prefix=/usr", f"CPPFLAGS={CPPFLAGS}"]
        argv = [source / "configure", *asked, *own]
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


def _build(headers: Path, into: Path) -> None:
    repo, log = repo_dir(), cache_dir() / "logs" / "openldap.log"
    library = build_c_library()
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
