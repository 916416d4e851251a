# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guest's root: a tree, our init and programs, one ssh key, and a file system around them.

    base      CACHE/root-base/KEY      Debian's packages, by mmdebstrap from this machine's sources
    packages  CACHE/root-packages/KEY  base and the packages of `--packages`
    product   CACHE/root/KEY           root.img: one of these or an image (`--oci`), and ours, as a
                                       raw ext4 image

A change of our programs then needs neither network nor much time. The image in the cache is
read-only: a machine works on a copy.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import InfraError
from lab.guest_root import additions, packages
from lab.guest_root.image import make_ext4
from lab.guest_root.oci_root import oci_key, root_from_oci
from lab.guest_root.personalise import personalise
from lab.guest_root.spec import RootSpec
from lab.oci.service import Service
from lab.paths import repo_dir, ssh_key
from lab.progress import step
from lab.run import run, stream
from lab.setup import cache, sources
from lab.setup.debian_root import debootstrap, may_make, root_log
from lab.setup.host import debian, explain
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import BUSYBOX, Group
from lab.setup.root_extras import NOTHING, Extras, extra_parts, extras_of

IMAGE_BYTES = 3 << 30  # sparse: Debian's 0.6 GiB, and room for what the loads write
ROOT = "guest root"  # in messages
FORMAT = "3"  # raised when the packing changes

# Packages of the guest, with their purpose.
GUEST_PACKAGES = {
    "redis-server": "load: acknowledged writes that only memory holds",
    "memcached": "load: the same over another protocol",
    "sqlite3": "load: a database on the disk",
    "sysbench": "load: CPU and memory",
    "gcc": "load: a compile in progress",
    "libc6-dev": "the same",
    "make": "the same",
    "python3": "small programs of tests",
    "gdb": "a program under a debugger while the power fails",
    "dropbear-bin": "commands from the host",
    "iproute2": "network set-up",
    "procps": "ps, free, sysctl",
    "e2fsprogs": "makes the file system of program texts",
    "kmod": "modules, where a test needs one",
    "netcat-openbsd": "sockets from shell scripts",
}
# Of guest/: what every root gets.
GUEST_SOURCES = ("rem-init", "rem-share", "rem-shell", "programs")
# Documentation. Folders of manual sections are kept: installations link into them.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class RootBase(Part[Path]):
    """The packages of the guest, unpacked and set up."""

    groups = (Group.ROOT,)
    lane = "root"

    def make(self, site: Site) -> Path:
        codename = debian().codename

        def build(into: Path) -> None:
            names = tuple(GUEST_PACKAGES)
            debootstrap(codename, into, "minbase", names, what=ROOT, left_out=LEFT_OUT)

        return site.product("root-base", base_key(codename), build) / "files"


@dataclass(frozen=True)
class RootPackages(Part[Path]):
    """The same with more packages."""

    names: tuple[str, ...]

    groups = (Group.ROOT,)
    lane = "root"

    def make(self, site: Site) -> Path:
        codename = debian().codename
        inputs = Inputs("root-packages").add("base", base_key(codename))
        inputs.add("preferences", sources.preferences(codename))

        def build(into: Path) -> None:
            base = site[RootBase()]
            may_make(ROOT)
            with step(f"guest root: {', '.join(self.names)}"):
                self._install(base, codename, into)

        key = inputs.add("packages", repr(self.names)).key()
        return site.product("root-packages", key, build) / "files"

    def _install(self, base: Path, codename: str, into: Path) -> None:
        listing = sources.write_release(codename, into, ported=True)
        options, tree = sources.apt_network_options(), into / "files"
        try:
            packages.install(
                base, tree, self.names, codename, listing,
                apt_options=options, preferences=sources.preferences(codename), log=root_log(),
            )  # fmt: skip
        except InfraError as error:
            raise explain(error, "installing packages into the guest root") from error
        listing.unlink()


@dataclass(frozen=True)
class Root(Part[Path]):
    """The image of this checkout, or the one of a *spec*."""

    spec: RootSpec = RootSpec()  # noqa: RUF009 - a frozen record

    groups = (Group.COMPILER, Group.ROOT)
    lane = "root"

    @classmethod
    def having(cls, *packages: str, regions: bool = False) -> Root:
        """The root of `rem run --packages`, and of `--pm --off2f` (*regions*)."""
        return cls(RootSpec(packages=packages, pm=regions, off2f=regions))

    def requires(self) -> tuple[Part[Any], ...]:
        return extra_parts(self.spec)

    def make(self, site: Site) -> Path:
        public_key, codename = ensure_ssh_key(), debian().codename
        extras = extras_of(self.spec, site)

        def build(into: Path) -> None:
            base = site[RootBase()]
            may_make(ROOT)
            tree = into / "files"
            tree.mkdir(mode=0o700)  # other users must not reach a root's set-user-ID programs
            service = self._fill(site, base, tree)
            with step("guest root: image"):
                _make_image(base, tree, public_key, extras, service, into)

        key = root_key(codename, public_key, self.spec, extras)
        return site.product("root", key, build) / "root.img"

    def _fill(self, site: Site, base: Path, tree: Path) -> Service | None:
        spec = self.spec
        if spec.oci is not None:
            with step(f"guest root: files of {spec.oci.name}"):
                return root_from_oci(spec, tree)
        source = site[RootPackages(spec.packages)] if spec.packages else base
        run(["cp", "-al", f"{source}/.", tree], what="copying the guest root")
        without_mirrors(tree)
        return None


def ensure_ssh_key() -> str:
    """Return the public key for the guests; the pair is created once per cache."""
    private = ssh_key()
    public = private.with_suffix(".pub")

    def is_there() -> bool:
        return private.exists() and public.exists()

    if not is_there():
        with cache.lock("ssh"):
            if not is_there():
                private.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                private.unlink(missing_ok=True)
                public.unlink(missing_ok=True)
                words = ["-q", "-t", "ed25519", "-N", "", "-C", "remanence-guest"]
                run(["ssh-keygen", *words, "-f", private], what="making the ssh key")
    return public.read_text(encoding="utf-8").strip()


def default_key(codename: str, public_key: str) -> str:
    """Return the key of the laboratory's own root."""
    return root_key(codename, public_key, RootSpec(), NOTHING)


def root_key(codename: str, public_key: str, spec: RootSpec, extras: Extras) -> str:
    inputs = Inputs("root").add("format", FORMAT).add("base", base_key(codename))
    inputs.add("size", str(IMAGE_BYTES)).add("ssh", public_key).add("extras", extras.key)
    for name in GUEST_SOURCES:
        inputs.add_path(repo_dir() / "guest" / name, name)
    inputs.add("packages", repr(spec.packages))
    return inputs.add("oci", oci_key(spec) if spec.oci else "").key()


def base_key(codename: str) -> str:
    inputs = Inputs("root-base").add("suite", codename)
    return inputs.add("packages", repr(sorted(GUEST_PACKAGES))).add("no", repr(LEFT_OUT)).key()


def _make_image(
    base: Path,
    tree: Path,
    public_key: str,
    extras: Extras,
    service: Service | None,
    into: Path,
) -> None:
    built, work = into / "programs", into / "work"
    argv = ["make", "-C", "guest/programs", f"OUT={built}"]
    stream(argv, cwd=repo_dir(), log=root_log(), what="compiling guest/programs")
    work.mkdir()
    added = [
        *additions.programs(repo_dir() / "guest", built, BUSYBOX),
        *additions.tools(base, work / "tools"),
        *extras.files(work / "modules"),
    ]
    personalise(tree, added, BUSYBOX, public_key, service)
    make_ext4(tree, into / "root.img", IMAGE_BYTES)
    for folder in (tree, built, work):
        shutil.rmtree(folder)


def without_mirrors(tree: Path) -> None:
    """Remove the mirrors: the guest has no network to them, and they are not part of its image."""
    (tree / "etc" / "resolv.conf").unlink(missing_ok=True)
    for path in (tree / "etc" / "apt").rglob("*.sources"):
        path.unlink()
    (tree / "etc" / "apt" / "sources.list").unlink(missing_ok=True)
