# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guest's root: unchanged Debian packages, our init, our test programs, one ssh key.

    base      CACHE/root-base/KEY   the packages, by mmdebstrap from this machine's own sources
    product   CACHE/root/KEY        root.img: base and ours as a raw ext4 image

A change of our programs then needs neither network nor much time. The image in the cache is
read-only: a machine works on a copy.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir, repo_dir, ssh_key
from lab.progress import Step, step
from lab.run import run, stream
from lab.setup import cache, sources
from lab.setup.apt import AptProgress
from lab.setup.host import debian, explain, is_root, need_disk, once_as_root
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group

IMAGE_BYTES = 3 << 30  # sparse: Debian's 0.6 GiB, and room for what the loads write
ROOT_MIB = 2500  # the unpacked root and the image, measured, with room
FORMAT = "2"  # raised when the way of packing changes

# What the guest has, and why.
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
    "kmod": "modules, where a test needs one",
    "netcat-openbsd": "sockets from shell scripts",
}
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


@dataclass(frozen=True)
class RootBase(Part[Path]):
    """The packages of the guest, unpacked and set up."""

    groups = (Group.ROOT,)
    lane = "root"

    def make(self, site: Site) -> Path:
        codename = debian().codename

        def build(into: Path) -> None:
            _may_make()
            with step("guest root: packages", unit="steps") as shown:
                _debootstrap(codename, into, shown)

        return site.product("root-base", base_key(codename), build) / "files"


@dataclass(frozen=True)
class Root(Part[Path]):
    """The image of this checkout."""

    groups = (Group.COMPILER, Group.ROOT)
    lane = "root"

    def make(self, site: Site) -> Path:
        public_key = ensure_ssh_key()

        def build(into: Path) -> None:
            base = site[RootBase()]
            _may_make()
            with step("guest root: image"):
                _make_image(base, public_key, into)

        return site.product("root", root_key(debian().codename, public_key), build) / "root.img"


def ensure_ssh_key() -> str:
    """The public half of the key that opens the guests; made once per cache."""
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


def root_key(codename: str, public_key: str) -> str:
    inputs = Inputs("root").add("format", FORMAT).add("base", base_key(codename))
    inputs.add("size", str(IMAGE_BYTES)).add("ssh", public_key)
    return inputs.add_path(repo_dir() / "guest", "guest").key()


def base_key(codename: str) -> str:
    inputs = Inputs("root-base").add("suite", codename)
    return inputs.add("packages", repr(sorted(GUEST_PACKAGES))).add("no", repr(LEFT_OUT)).key()


def _may_make() -> None:
    if not is_root():
        raise InfraError(
            f"the guest root is made with root's rights (chroot, device nodes): {once_as_root()}"
        )
    need_disk(cache_dir(), ROOT_MIB, "the guest root")


def _debootstrap(codename: str, into: Path, shown: Step) -> None:
    entries = sources.release_only(sources.read_machine(), codename)
    if not entries:
        raise InfraError(f"no apt source of {codename}/main found below {sources.APT_DIR}: add one")
    listing = into / "guest.sources"
    listing.write_text("\n".join(s.as_deb822() for s in entries), encoding="utf-8")
    argv = ["mmdebstrap", "--verbose", "--mode=root", "--variant=minbase"]
    argv += ["--include=" + ",".join(GUEST_PACKAGES)]
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    argv += [f"--aptopt={option}" for option in sources.apt_network_options()]
    argv += [codename, str(into / "files"), str(listing)]
    try:
        stream(argv, log=_log(), on_line=AptProgress(shown).read, what="mmdebstrap")
    except InfraError as error:
        raise explain(error, "making the guest root") from error
    listing.unlink()


def _make_image(base: Path, public_key: str, into: Path) -> None:
    files, programs = into / "files", into / "programs"
    argv = ["make", "-C", "guest/programs", f"OUT={programs}"]
    stream(argv, cwd=repo_dir(), log=_log(), what="compiling guest/programs")
    run(["cp", "-al", base, files], what="copying the guest root")
    _personalise(files, programs, public_key)
    image = into / "root.img"
    options = ["-q", "-t", "ext4", "-L", "rem-root", "-m", "0"]
    run(["mke2fs", *options, "-d", files, image, f"{IMAGE_BYTES >> 10}k"])
    image.chmod(0o444)
    shutil.rmtree(files)
    shutil.rmtree(programs)


def _personalise(root: Path, programs: Path, public_key: str) -> None:
    """Files are links to the base's: each is replaced, none is written to."""
    guest = repo_dir() / "guest"
    _put(root / "sbin" / "rem-init", (guest / "rem-init").read_bytes(), 0o755)
    for program in sorted(programs.glob("rem-*")):
        _put(root / "opt" / "rem" / "bin" / program.name, program.read_bytes(), 0o755)
    _put(root / "root" / ".ssh" / "authorized_keys", f"{public_key}\n".encode(), 0o600)
    (root / "root" / ".ssh").chmod(0o700)
    (root / "etc" / "dropbear").mkdir(exist_ok=True)
    _put(root / "etc" / "hostname", b"remanence\n", 0o644)
    _put(root / "etc" / "hosts", b"127.0.0.1 localhost remanence\n", 0o644)
    # The guest has no way out, and the host's mirrors are no part of its image.
    (root / "etc" / "resolv.conf").unlink(missing_ok=True)
    for path in (root / "etc" / "apt").rglob("*.sources"):
        path.unlink()
    (root / "etc" / "apt" / "sources.list").unlink(missing_ok=True)


def _put(target: Path, data: bytes, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.write_bytes(data)
    target.chmod(mode)


def _log() -> Path:
    return cache_dir() / "logs" / "root.log"
