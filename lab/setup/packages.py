# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Debian packages that the host needs: one list, each with its reason.

Kept cheap for a machine that is set up: while dpkg's state file has not changed since the last
look, nothing is asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir
from lab.run import run, stream
from lab.setup import sources
from lab.setup.host import debian, explain, is_root, need_disk
from lab.setup.inputs import Inputs
from lab.setup.progress import Progress

DPKG_STATUS = Path("/var/lib/dpkg/status")
INSTALL_MIB = 2500  # all of the list on a bare Debian, measured by apt, with room
KERNEL_SOURCE = "linux-source-6.12"
QEMU = "qemu-system-x86"
BUSYBOX = Path("/bin/busybox")  # static: one program that is many, without ld.so


@dataclass(frozen=True)
class Package:
    name: str
    why: str
    at_least: str = ""  # oldest version that serves, as dpkg compares


PACKAGES = (
    Package(QEMU, "the machine; plugin API 4 needs QEMU 10", "1:10.0"),
    Package(KERNEL_SOURCE, "the kernel that the patches are for", "6.12.111"),
    Package("gcc", "compiles the kernel and the guest's programs"),
    Package("libc6-dev", "static C library for the guest's programs"),
    Package("make", "builds the kernel and the loader"),
    Package("flex", "kernel: Kconfig"),
    Package("bison", "kernel: Kconfig"),
    Package("bc", "kernel: time constants"),
    Package("perl", "kernel: scripts, checkpatch"),
    Package("libelf-dev", "kernel: objtool"),
    Package("lz4", "kernel: compressed image"),
    Package("zstd", "kernel: compressed initrd"),
    Package("xz-utils", "unpacks the kernel source"),
    Package("patch", "applies kernel/patches"),
    Package("ccache", "a kernel built again is built in a minute"),
    Package("clang", "the loader, and its fuzzer"),
    Package("lld", "links the loader"),
    Package("libclang-rt-dev", "the loader's fuzzer (libFuzzer, sanitizers)"),
    Package("mmdebstrap", "makes the guest root"),
    Package("qemu-utils", "the overlay of a disk whose write cache forgets"),
    Package("e2fsprogs", "makes its file system"),
    Package("busybox-static", "small guests, the start of Debian's kernel, an OFF2F program"),
    Package("iproute2", "network namespace and tap of a machine"),
    Package("openssh-client", "commands in the guest"),
    Package("git", "lists the files that `rem test` looks at"),
    Package("shellcheck", "linter of shell scripts"),
    Package("clang-format", "formatter of C"),
    Package("libpmemobj-dev", "the heap's peer in `rem bench heap`"),
    Package("strace", "shows that neither heap calls msync there"),
    Package("valgrind", "counts the instructions of an update there"),
    Package("ca-certificates", "fetches from package registries"),
)


def ensure_packages(progress: Progress) -> None:
    """Install what is missing."""
    if _stamp_holds():
        return
    system = debian()
    lacking = missing()
    if lacking:
        if not is_root():
            raise InfraError(
                "not root, and packages are missing; as root: " + by_hand(lacking, system.codename)
            )
        need_disk(Path("/usr"), INSTALL_MIB, "Debian packages")
        with progress.step(f"packages ({len(lacking)} missing)"):
            try:
                _install(lacking, system.codename)
            except InfraError as error:
                raise explain(error, "installing Debian packages") from error
        left = missing()
        if left:
            raise InfraError(
                "apt installed, but not as new as needed: "
                + ", ".join(f"{p.name} >= {p.at_least}" for p in left)
                + ": see `apt-cache policy` of them"
            )
    _write_stamp()


def installed_versions(names: list[str]) -> dict[str, str]:
    """Versions of those packages that are completely installed."""
    form = "${Package} ${db:Status-Abbrev} ${Version}\n"
    out = run(["dpkg-query", "-W", "-f", form, *names], check=False).stdout
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == "ii"}


def missing() -> list[Package]:
    """Packages that are not installed, or older than needed."""
    have = installed_versions([p.name for p in PACKAGES])
    return [p for p in PACKAGES if not _serves(have.get(p.name), p.at_least)]


def by_hand(lacking: list[Package], codename: str) -> str:
    """The command that a person with the rights would type."""
    suite = f"-t {codename}-backports " if codename == "bookworm" else ""
    plain = " ".join(p.name for p in lacking if p.name != QEMU)
    commands = [f"apt-get install {plain}"] if plain else []
    if any(p.name == QEMU for p in lacking):
        commands.append(f"apt-get install --no-install-recommends {suite}{QEMU}")
    return " && ".join(commands)


def apt_versions(name: str) -> list[str]:
    """The versions that apt offers, from all its sources."""
    out = run(["apt-cache", "madison", name], check=False).stdout
    return [line.split("|")[1].strip() for line in out.splitlines() if line.count("|") == 2]


def newest(versions: list[str]) -> str:
    """The newest of them, as dpkg compares; empty if there is none."""
    best = ""
    for version in versions:
        if not best or _is_at_least(version, best):
            best = version
    return best


def apt_get(*words: str) -> None:
    """apt-get without questions; its output goes to a log."""
    stream(
        ["apt-get", "-y", "-q", "-o", "Dpkg::Use-Pty=0", *words],
        log=cache_dir() / "logs" / "apt.log",
        env={"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
        what="apt-get",
    )


def _serves(version: str | None, at_least: str) -> bool:
    return version is not None and (not at_least or _is_at_least(version, at_least))


def _is_at_least(version: str, bound: str) -> bool:
    return run(["dpkg", "--compare-versions", version, "ge", bound], check=False).ok


def _install(lacking: list[Package], codename: str) -> None:
    names = [p.name for p in lacking]
    wants_backports = QEMU in names and codename == "bookworm"
    if wants_backports:
        _write_backports_entry(codename)
    # A mirror out of reach is but a warning to `update`; without lists nothing can be installed.
    apt_get("update", "-o", "APT::Update::Error-Mode=any")
    plain = [n for n in names if n not in (QEMU, KERNEL_SOURCE)]
    if KERNEL_SOURCE in names:
        plain.append(f"{KERNEL_SOURCE}={_kernel_source_version()}")
    if plain:
        apt_get("install", "--no-install-recommends", *plain)
    if QEMU in names:
        suite = ["-t", f"{codename}-backports"] if wants_backports else []
        apt_get("install", "--no-install-recommends", *suite, QEMU)


def _kernel_source_version() -> str:
    """The newest 6.12.y, from wherever: the backports may lag behind the security archive."""
    best = newest(apt_versions(KERNEL_SOURCE))
    bound = next(p.at_least for p in PACKAGES if p.name == KERNEL_SOURCE)
    if not best or not _is_at_least(best, bound):
        raise InfraError(
            f"apt offers {KERNEL_SOURCE} {best or 'in no version'}, {bound} or newer is needed: "
            "is the release's security suite among the machine's sources?"
        )
    return best


def _write_backports_entry(codename: str) -> None:
    """Put the derived entry in place of whatever an earlier set-up or a person left there."""
    own = sources.APT_DIR / "sources.list.d" / sources.OWN_NAME
    own.unlink(missing_ok=True)
    found = sources.read_machine()
    if sources.has_suite(found, f"{codename}-backports"):
        return
    entry = sources.backports(found, codename)
    if entry is None:
        raise InfraError(
            f"no apt source of {codename}/main found below {sources.APT_DIR}, so none for its "
            "backports can be derived (QEMU >= 10 is there): add one, then run `./rem setup`"
        )
    own.write_text(
        "# Written by `rem setup`: QEMU >= 10. Derived from this machine's own entry.\n"
        + entry.as_deb822(),
        encoding="utf-8",
    )


def _stamp_path() -> Path:
    return cache_dir() / "stamps" / "packages.json"


def _stamp_now() -> dict[str, object]:
    stat = DPKG_STATUS.stat()
    key = Inputs("packages").add("list", repr(PACKAGES)).key()
    return {"list": key, "dpkg_ns": stat.st_mtime_ns, "dpkg_bytes": stat.st_size}


def _stamp_holds() -> bool:
    try:
        text = _stamp_path().read_text(encoding="utf-8")
        return bool(json.loads(text) == _stamp_now())
    except (OSError, ValueError):
        return False


def _write_stamp() -> None:
    path = _stamp_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_stamp_now()), encoding="utf-8")
