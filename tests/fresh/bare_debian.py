# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A bare machine: a minimal Debian in a folder, with this checkout in it.

    with bare_debian("trixie") as machine:
        done = machine.type("./rem", "demo", "--json")

From the host it gets the package sources (for its own release), the certificates, the settings for
registries, and of the caches only the compiler's. It has its own mounts and processes, its own
/dev/shm, /run and /tmp; devices and network are the host's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lab import run
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.setup.host import debian
from lab.setup.products import Group, Packages, need
from lab.setup.sources import apt_network_options, read_machine, release_only
from lab.tidy.files import project_files

SUITES = ("bookworm", "trixie")
HOME = "/root"
CHECKOUT = f"{HOME}/remanence"
CACHE = f"{HOME}/.cache/remanence"
USER = 1000  # the machine's ordinary user
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
# Settings with which programs reach the same registries as the host's.
FROM_HOST = (
    "/etc/pip.conf",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/usr/local/share/ca-certificates",
    str(CERTIFICATES),
)
# Mounts are made in the machine's own namespace, which ends with its last process.
ENTER = """
mount --rbind "$1" "$1"  # a mount point: `ip netns exec` makes / a slave
mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev"
for place in run tmp dev/shm; do mount -t tmpfs tmpfs "$1/$place"; done
mount --bind "$2" "$1$3"
shift 3 && exec "$@"
"""


@dataclass(frozen=True)
class Done:
    """What a command printed and returned."""

    returncode: int
    stdout: str
    lines: list[str] = field(repr=False)  # of stdout and stderr

    def shown(self) -> str:
        """The end of the output, for a failed assertion."""
        return "\n".join(self.lines[-40:])


@dataclass(frozen=True)
class BareDebian:
    """The machine."""

    root: Path

    def type(self, *words: str, user: int = 0, before: str = "") -> Done:
        """Run a command in the checkout; *before* is a shell's preparation, run by root."""
        who = f"setpriv --reuid {user} --regid {user} --clear-groups" if user else ""
        home = HOME if user == 0 else f"/home/{user}"
        script = f"{before}\ncd {CHECKOUT} && HOME={home} exec {who} {shlex.join(words)}"
        env = {
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "PATH": PATH,
            "SSL_CERT_FILE": str(CERTIFICATES),
            "PIP_CERT": str(CERTIFICATES),
            "TERM": "dumb",
        }
        ccache = cache_dir() / "ccache"
        ccache.mkdir(parents=True, exist_ok=True)
        argv: list[str | Path] = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        argv += [f"--mount-proc={self.root}/proc", "--propagation", "private"]
        argv += ["sh", "-euc", ENTER, "sh", self.root, ccache, f"{CACHE}/ccache"]
        argv += ["env", "-i", *(f"{name}={value}" for name, value in env.items())]
        argv += ["chroot", self.root, "sh", "-euc", script]
        return _run(argv)


def _run(argv: run.Args) -> Done:
    """Run a command; its output is copied to this process's, so that a long run can be watched."""
    lines: list[str] = []
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        child = run.spawn(argv, stdout=out, stderr=subprocess.PIPE)
        try:
            assert child.stderr is not None
            for line in child.stderr:
                print(line, end="", flush=True)
                lines.append(line.rstrip("\n"))
            child.wait()
        finally:
            run.end(child)
        out.seek(0)
        text = out.read()
    return Done(child.returncode, text, [*lines, *text.splitlines()])


@contextmanager
def bare_debian(suite: str) -> Iterator[BareDebian]:
    """Make the machine from the packages of a minimal Debian; remove it afterwards."""
    need(Packages((Group.ROOT,)))
    root = Path(tempfile.mkdtemp(prefix="rem-fresh-", dir="/var/tmp"))
    try:
        with step(f"bare Debian: {suite}"):
            _install(suite, root)
        _lay_checkout(root)
        yield BareDebian(root)
    finally:
        run.run(["rm", "-rf", "--one-file-system", root], what="removing the bare Debian")


def _install(suite: str, root: Path) -> None:
    found = release_only(read_machine(), suite, debian().codename)
    assert found, "no apt source of this Debian's release"
    options = apt_network_options()
    with tempfile.TemporaryDirectory(prefix="rem-sources-") as folder:
        listing = Path(folder) / "debian.sources"
        listing.write_text("\n".join(s.as_deb822() for s in found), encoding="utf-8")
        argv: list[str | Path] = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase"]
        argv += [f"--aptopt={option}" for option in options]
        run.run([*argv, suite, root, listing], what=f"making a bare Debian ({suite})")
        apt = root / "etc" / "apt"
        for path in (*apt.glob("sources.list.d/*"), *apt.glob("sources.list")):
            path.unlink()
        shutil.copy(listing, apt / "sources.list.d" / "debian.sources")
    (apt / "apt.conf.d" / "90-host").write_text("\n".join(options) + "\n", encoding="utf-8")
    for name in FROM_HOST:
        _copy(Path(name), root / name[1:])
    (root / "home" / str(USER)).mkdir(parents=True)
    os.chown(root / "home" / str(USER), USER, USER)
    (root / CACHE[1:] / "ccache").mkdir(parents=True)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.exists():
        with suppress(FileNotFoundError):
            target.unlink()
        shutil.copy(source, target)


def _lay_checkout(root: Path) -> None:
    """Clone HEAD, and copy uncommitted changes."""
    repo, target = repo_dir(), root / CHECKOUT[1:]
    run.run(["git", "clone", "--quiet", "--no-hardlinks", repo, target], what="cloning")
    files = {path.relative_to(repo) for path in project_files(repo)}
    for name in run.run(["git", "ls-files", "-z"], cwd=target).stdout.split("\0"):
        if name and Path(name) not in files:
            (target / name).unlink()
    for name in sorted(files):
        _copy(repo / name, target / name)
    for path in (target, *target.parents):
        if path != root and path.is_relative_to(root):
            path.chmod(0o755)  # the ordinary user reads it
