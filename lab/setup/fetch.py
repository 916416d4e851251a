# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Fetch and unpack Debian packages; nothing is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir
from lab.run import run, stream
from lab.setup import sources
from lab.setup.host import debian, explain


def unpack(what: str, names: list[str], into: Path) -> None:
    """Fetch packages with this machine's apt and unpack them below *into*."""
    with tempfile.TemporaryDirectory(prefix="apt-", dir=cache_dir()) as scratch:
        argv = ["apt-get", "download", "-q", *names]
        run(argv, cwd=Path(scratch), what=f"fetching {what}")
        for package in sorted(Path(scratch).glob("*.deb")):
            run(["dpkg-deb", "-x", package, into], what=f"unpacking {what}")


def dependencies(depends: str) -> set[str]:
    """The packages in what `apt-cache depends` prints."""
    words = [line.split() for line in depends.splitlines()]
    return {word[1] for word in words if len(word) == 2 and word[0] == "Depends:"}


def fetch_source(name: str, version: str, folder: Path, *options: str) -> None:
    """Fetch the files of a source package, with separate lists and sources for apt."""
    own = folder / "machine.sources"
    found = sources.of_source_packages(sources.read_machine(), debian().codename)
    own.write_text("\n".join(entry.as_deb822() for entry in found), encoding="utf-8")
    (folder / "lists" / "partial").mkdir(parents=True)
    places = {
        "Dir::Etc::sourcelist": own,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": folder / "lists",
        "APT::Sandbox::User": "root",
    }
    words = [word for key, value in places.items() for word in ("-o", f"{key}={value}")]
    log, what = cache_dir() / "logs" / "apt.log", f"fetching the source of {name}"
    for command in (["update"], ["source", "--download-only", *options, f"{name}={version}"]):
        try:
            stream(["apt-get", "-q", *words, *command], cwd=folder, log=log, what=what)
        except InfraError as error:
            raise explain(error, what) from error


def unpack_source(name: str, version: str, folder: Path) -> Path:
    """The tree of a source package, with Debian's patches, below *folder*, which is empty."""
    fetch_source(name, version, folder)
    (description,) = folder.glob("*.dsc")
    tree = folder / "source"
    run(["dpkg-source", "--no-check", "-x", description, tree], what=f"unpacking {name}")
    return tree
