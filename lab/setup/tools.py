# SPDX-License-Identifier: Apache-2.0 OR MIT
"""PATH for all processes of a command: the programs of listed packages and no others.

CACHE/tools/KEY/GROUP has a link to each program of the packages of a group and of their
dependencies; `minimal` has those of a minimal Debian, `rust` the Rust compiler's, which may be the
user's own. use() builds PATH from them. So a build step or a test that runs a program of an
unlisted package fails on every machine, and not only on a bare one.

KEY changes with dpkg's state, so the folders follow what is installed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab.paths import cache_dir
from lab.run import HOST_PATH_ENV, run
from lab.setup import cache, rust
from lab.setup.inputs import Inputs
from lab.setup.install import dpkg_state
from lab.setup.packages import BASE, Group, of_groups

PLACES = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")
ALTERNATIVES = Path("/etc/alternatives")
MINIMAL = "minimal"
USED_ENV = "REM_GROUPS"  # in PATH; what pytest starts inherits it, the entry script clears it
QUERY = "${Package}\t${db:Status-Abbrev}\t${Essential}\t${Priority}\t${Provides}\t"
QUERY += "${Pre-Depends}, ${Depends}\n"


@dataclass(frozen=True)
class Installed:
    """dpkg's data about the installed packages."""

    names: dict[str, frozenset[str]]  # packages by name, or by the name of what they provide
    depends: dict[str, frozenset[str]]  # including installed alternatives
    minimal: frozenset[str]  # the packages of every Debian

    def closure(self, names: Iterable[str]) -> set[str]:
        """Return those of these packages that are installed, and all their dependencies."""
        found: set[str] = set()
        left = [package for name in names for package in self.names.get(name, ())]
        while left:
            package = left.pop()
            if package not in found:
                found.add(package)
                for name in self.depends[package]:
                    left += self.names.get(name, ())
        return found


def use(groups: tuple[Group, ...]) -> None:
    """Add the programs of these groups to PATH, for processes from now on."""
    folder = _folder()
    names = list(dict.fromkeys([MINIMAL, BASE, *os.environ.get(USED_ENV, "").split(), *groups]))
    absent = [name for name in names if not (folder / name).is_dir()]
    if absent:
        with cache.lock("tools"):
            _make(folder, [name for name in absent if not (folder / name).is_dir()])
    os.environ[HOST_PATH_ENV] = os.environ.get(HOST_PATH_ENV, os.environ.get("PATH", ""))
    os.environ["PATH"] = ":".join(str(folder / name) for name in names)
    os.environ[USED_ENV] = " ".join(names)


def _folder() -> Path:
    inputs = Inputs("tools").add("dpkg", dpkg_state())
    for group in Group:
        inputs.add(group, " ".join(package.name for package in of_groups((group,))))
    inputs.add("rust", str(rust.folder()))
    return cache_dir() / "tools" / inputs.key()


def _make(folder: Path, names: list[str]) -> None:
    installed = read_installed(run(["dpkg-query", "-W", "-f", QUERY]).stdout)
    for name in names:
        partial = folder / f".{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for program in _programs(name, installed):
            (partial / program.name).symlink_to(program)
        partial.rename(folder / name)
    cache.prune("tools")


def _programs(name: str, installed: Installed) -> list[Path]:
    """Return the programs by name; /usr/bin comes before /bin, which is often the same."""
    if name == MINIMAL:
        packages = set(installed.minimal)
    else:
        packages = installed.closure(package.name for package in of_groups((Group(name),)))
    if name == Group.RUST:
        packages |= installed.closure(rust.PACKAGE_NAMES)
    found = {path.name: path for path in reversed(_files(packages))}
    if name == Group.RUST:
        found |= {path.name: path for path in rust.programs()}
    return list(found.values())


def _files(packages: set[str]) -> list[Path]:
    """Return programs of the packages, also under the names of update-alternatives."""
    if not packages:
        return []
    listed = set(run(["dpkg-query", "-L", *sorted(packages)]).stdout.splitlines())
    return [
        path
        for place in PLACES
        for path in sorted(Path(place).iterdir())
        if str(path) in listed or _alternative(path) in listed
    ]


def _alternative(path: Path) -> str | None:
    """Return the target of a link through /etc/alternatives."""
    if not path.is_symlink():
        return None
    link = Path(os.readlink(path))
    return str(os.readlink(link)) if link.parent == ALTERNATIVES and link.is_symlink() else None


def read_installed(text: str) -> Installed:
    """Parse the lines of dpkg-query by QUERY."""
    names: dict[str, set[str]] = {}
    depends: dict[str, set[str]] = {}
    minimal: set[str] = set()
    for line in text.splitlines():
        name, status, essential, priority, provides, wants = line.split("\t")
        if not status.startswith("ii"):
            continue
        for word in (name, *_package_names(provides)):
            names.setdefault(word, set()).add(name)
        depends.setdefault(name, set()).update(_package_names(wants))
        if essential == "yes" or priority == "required" or name == "apt":
            minimal.add(name)
    found = Installed(_frozen(names), _frozen(depends), frozenset())
    return Installed(found.names, found.depends, frozenset(found.closure(minimal)))


def _frozen(table: dict[str, set[str]]) -> dict[str, frozenset[str]]:
    return {name: frozenset(values) for name, values in table.items()}


def _package_names(field: str) -> list[str]:
    """Return the names in a list of dependencies, without versions, architectures and bars."""
    return re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", field)
