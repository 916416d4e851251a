# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files that are added to every root."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.archive.tree import Tree
from lab.isa import X86_64, Isa
from lab.run import run

TOOLS_PREFIX = "/opt/rem"
# Programs of the laboratory's own root that every root gets, with their libraries.
TOOLS = ("usr/sbin/dropbear", "usr/bin/tar", "usr/sbin/mke2fs")
# Opened by the C library itself, where /etc/nsswitch.conf names it.
MORE_LIBRARIES = ("libnss_compat.so.2",)


@dataclass(frozen=True)
class Addition:
    """One file of the guest."""

    path: str
    data: bytes
    mode: int

    @staticmethod
    def of(path: str, source: Path) -> Addition:
        """Add *source*, with the mode of a program or of a file."""
        executable = source.stat().st_mode & 0o111
        return Addition(path, source.read_bytes(), 0o755 if executable else 0o644)


def put(tree: Tree, additions: Iterable[Addition]) -> None:
    """Add files. An existing file is replaced, never written to: it may be a link to a product."""
    for one in additions:
        parts = tuple(part for part in one.path.split("/") if part)
        tree.make_file(parts, one.mode, time.time_ns(), len(one.data), [one.data])


def programs(guest: Path, built: Path, busybox: Path) -> Iterator[Addition]:
    """Yield the programs of init and of tests: scripts, compiled programs, busybox."""
    yield Addition("/sbin/rem-init", (guest / "rem-init").read_bytes(), 0o755)
    for script in ("rem-shell", "rem-share"):
        yield Addition(f"{TOOLS_PREFIX}/bin/{script}", (guest / script).read_bytes(), 0o755)
    for program in sorted(built.glob("rem-*")):
        yield Addition(f"{TOOLS_PREFIX}/bin/{program.name}", program.read_bytes(), 0o755)
    yield Addition(f"{TOOLS_PREFIX}/bin/busybox", busybox.read_bytes(), 0o755)


def link_applets(tree: Tree, busybox: Path) -> None:
    for name in run([busybox, "--list"]).stdout.split():
        target = f"{TOOLS_PREFIX}/bin/busybox"
        tree.make_symlink(("opt", "rem", "applets", name), target, time.time_ns())


def tools(base: Path, work: Path, isa: Isa = X86_64) -> Iterator[Addition]:
    """Yield programs of Debian that run in any root, also in one with another C library.

    Each names the loader and the libraries beside it, so that it does not need the root's own, and
    the programs that it starts do not inherit its environment.
    """
    work.mkdir()
    libraries: dict[str, Path] = {}
    for name in TOOLS:
        libraries |= _libraries(base, base / name, isa)
        copy = work / Path(name).name
        copy.write_bytes((base / name).read_bytes())
        copy.chmod(0o755)
        words = ["--set-interpreter", f"{TOOLS_PREFIX}/lib/{Path(isa.interpreter).name}"]
        # The old RPATH, which applies to the libraries' dependencies, too.
        words += ["--force-rpath", "--set-rpath", f"{TOOLS_PREFIX}/lib"]
        run(["patchelf", *words, copy], what=f"preparing {copy.name} for other roots")
        yield Addition.of(f"{TOOLS_PREFIX}/sbin/{copy.name}", copy)
    for name in MORE_LIBRARIES:
        libraries[name] = _find(base, name, isa)
    for name, path in sorted(libraries.items()):
        yield Addition(f"{TOOLS_PREFIX}/lib/{name}", path.read_bytes(), 0o755)


def _folders(base: Path, isa: Isa) -> list[Path]:
    return [base / "lib" / isa.library, base / "usr" / "lib" / isa.library]


def _libraries(base: Path, program: Path, isa: Isa) -> dict[str, Path]:
    """Return all files that the loader would open, by the name it looks for."""
    loader = base / isa.interpreter
    folders = ":".join(str(folder) for folder in _folders(base, isa))
    listed = run([loader, "--library-path", folders, "--list", program]).stdout
    found = {loader.name: loader.resolve()}
    for line in listed.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow:
            found[Path(name).name] = Path(rest.split(" (")[0]).resolve()
    return found


def _find(base: Path, name: str, isa: Isa) -> Path:
    return next(path for folder in _folders(base, isa) if (path := folder / name).exists())


def modules(release: str, files: Iterable[Path], work: Path) -> Iterator[Addition]:
    """Yield kernel modules at the place where modprobe finds them."""
    folder = work / "lib" / "modules" / release
    updates = folder / "updates"
    updates.mkdir(parents=True)
    for file in files:
        (updates / file.name).write_bytes(file.read_bytes())
    for name in ("modules.order", "modules.builtin"):
        (folder / name).touch()
    run(["depmod", "-b", work, release], what="listing the guest's modules")
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        yield Addition(f"/{path.relative_to(work)}", path.read_bytes(), 0o644)
