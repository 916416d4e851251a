# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files and folders between the host and a guest: a tar stream over ssh.

The receiver writes beside the target and renames when all is there: a copy is whole or absent. The
guest is not trusted: what it sends is written as lab/archive/tree.py does, bounded by the size that
it announced and by the disk, and its messages are shown without control characters.

    guest to host    "REM-CP KIND BYTES\\n", then the archive: of one file, or of a folder's content
    host to guest    the archive: `new` is what is copied, `end` comes last
"""

from __future__ import annotations

import io
import os
import posixpath
import shlex
import shutil
import stat
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lab import run
from lab.archive.extract import write_entry
from lab.archive.limits import ArchiveError, Budget, shown
from lab.archive.tar_stream import BLOCK_BYTES, CHUNK_BYTES, Kind, TarStream
from lab.archive.tree import LinkPolicy, Tree, leads_outside
from lab.errors import RemError, UsageError

HEADER_BYTES_MAX = 64
MESSAGE_BYTES_MAX = 4096  # of what the guest prints as an error
MESSAGE_CHARACTERS_MAX = 400  # of the line that is shown
# Files may grow while they are copied: what is announced is exceeded by so much at most.
GROWTH_SHARE = 1.1
GROWTH_BYTES = 64 << 20
# Left free on the host's disk.
RESERVE_BYTES = 1 << 30
EXISTS = "a folder that is there already: --replace replaces it"
PLAIN_MODE = 0o777
# Archives end with zeros up to a whole record.
RECORD_BYTES = 20 * BLOCK_BYTES
FILES_CHANGED = 1  # tar's exit status where a file changed while it was read

Advance = Callable[[int], None]
Begin = Callable[[int], Advance]  # given the bytes to come, returns what counts them
Reach = Callable[[str], list[str]]  # a command for the guest's shell: the host's command line

_TAR = """PATH=$PATH:/opt/rem/applets; export LC_ALL=C
T=/opt/rem/sbin/tar; [ -x $T ] || T=tar
"""
_SEND = (
    _TAR
    + """
P=$(readlink -f -- {path}) && [ -e "$P" ] || {{ echo {path}: no such file or folder >&2; exit 9; }}
if [ -d "$P" ]; then K=d D=$P B=.; else K=f D=$(dirname -- "$P") B=./$(basename -- "$P"); fi
cd "$D" || exit 9
N=$($T -cf /dev/null --totals -- "$B" 2>&1 | sed -n 's/^Total bytes written: \\([0-9]*\\).*/\\1/p')
echo "REM-CP $K ${{N:-0}}"
exec $T --format=pax --pax-option=delete=atime,delete=ctime --numeric-owner -cf - -- "$B"
"""
)
_RECEIVE = (
    _TAR
    + """
t={path}
fail() {{ echo "$t: $1" >&2; exit 9; }}
case $t in */) [ -d "$t" ] || fail 'no such folder' ;; esac
[ -d "$t" ] && t=${{t%/}}/{name}
p=$(dirname -- "$t")
[ -d "$p" ] || fail 'no such folder to put it into'
if [ -d "$t" ] && [ {replace} = 0 ]; then fail '{exists}'; fi
w=
trap '[ -z "$w" ] || rm -rf "$w"' EXIT; trap 'exit 9' HUP INT TERM PIPE
w=$(mktemp -u "$p/.rem-cp-XXXXXX")
mkdir -m 700 -- "$w" || {{ w=; fail 'cannot be written to'; }}
$T -C "$w" --numeric-owner -xpf - || exit 9
[ -e "$w/end" ] || fail 'the copy ended early'
if [ -d "$t" ]; then mv "$t" "$w/old" || exit 9; fi
mv "$w/new" "$t"
"""
)


@dataclass(frozen=True)
class Copied:
    files: int
    skipped: tuple[str, ...] = ()  # names of what was left out
    changed: bool = False  # while it was read


@dataclass(frozen=True)
class Place:
    """One end of a copy: the machine is None for the host."""

    machine: str | None
    path: str

    @staticmethod
    def parse(text: str, default: str) -> Place:
        """`NAME:PATH` and `:PATH` are in a guest; a host's path with a colon is written ./PATH."""
        before, colon, after = text.partition(":")
        if not colon or "/" in before:
            return Place(None, text)
        return Place(before or default, after or ".")


def push(reach: Reach, source: Path, remote: str, replace: bool, begin: Begin) -> Copied:
    """From the host into the guest."""
    top = _followed(source)
    advance = begin(sum(path.lstat().st_size for _, path in _below(top.resolve())))
    script = _RECEIVE.format(
        path=shlex.quote(remote),
        name=shlex.quote(top.name),
        replace=int(replace),
        exists=EXISTS,
    )
    with _transfer(reach(script)) as transfer:
        files, skipped = 0, []
        assert transfer.child.stdin is not None
        out = transfer.child.stdin.buffer  # type: ignore[attr-defined]
        try:
            with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                for name, path in _below(top.resolve()):
                    if _add(tar, name, path, advance):
                        files += 1
                    else:
                        skipped.append(str(path))
                tar.addfile(tarfile.TarInfo("end"))
            transfer.child.stdin.close()
        except BrokenPipeError:
            pass  # the guest's message says why
        transfer.finish("copying into the guest")
    return Copied(files, tuple(skipped))


def _followed(source: Path) -> Path:
    """What is named on the command line is followed if it is a link, and keeps its name."""
    if not source.exists():
        raise UsageError(f"{source}: no such file or folder")
    return source.resolve() if source.name in ("", ".", "..") else source


def _below(source: Path, name: str = "new") -> Iterator[tuple[str, Path]]:
    """What is copied, each folder directly before its content: tar sets a folder's time then."""
    yield name, source
    if source.is_dir() and (name == "new" or not source.is_symlink()):
        for path in sorted(source.iterdir()):
            yield from _below(path, f"{name}/{path.name}")


def _add(tar: tarfile.TarFile, name: str, path: Path, advance: Advance) -> bool:
    """False for a socket, which means nothing elsewhere."""
    info = tar.gettarinfo(path, name)
    if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        if stat.S_ISSOCK(path.lstat().st_mode):
            return False
        raise UsageError(f"{path} is a device or a FIFO, which is not copied")
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode &= PLAIN_MODE  # all belongs to root there
    seconds, rest_ns = divmod(path.lstat().st_mtime_ns, 10**9)
    info.pax_headers = {"mtime": f"{seconds}.{rest_ns:09}"}
    if not info.isreg():
        tar.addfile(info)
        return True
    with path.open("rb") as content:
        tar.addfile(info, _Counted(content, advance))
    return True


class _Counted(io.RawIOBase):
    """A file that tells how much of it was read."""

    def __init__(self, source: io.BufferedReader, advance: Advance) -> None:
        self._source, self._advance = source, advance

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(size)
        self._advance(len(data))
        return data


def pull(
    reach: Reach,
    remote: str,
    target: Path,
    replace: bool,
    skip_links: bool,
    begin: Begin,
) -> Copied:
    """From the guest to the host."""
    final = _final(remote, target)
    if final.is_dir() and not final.is_symlink() and not replace:
        raise UsageError(f"{final}: {EXISTS}")
    with _transfer(reach(_SEND.format(path=shlex.quote(remote)))) as transfer:
        assert transfer.child.stdout is not None
        transfer.child.stdin.close()  # type: ignore[union-attr]
        source = transfer.child.stdout.buffer  # type: ignore[attr-defined]
        kind, announced_bytes = _header(source, transfer)
        budget = _budget(announced_bytes, final.parent)
        counted = _CountedSource(source, begin(announced_bytes))
        work = Path(tempfile.mkdtemp(prefix=".rem-cp-", dir=final.parent))
        try:
            files = _receive(TarStream(counted), work, kind, budget)
            if len(counted.read(RECORD_BYTES)) == RECORD_BYTES:
                raise ArchiveError("the guest sends more after the archive's end")
            changed = transfer.finish("copying out of the guest", (FILES_CHANGED,))
            skipped = _check_links(work / "new", skip_links)
            if final.is_dir() and not final.is_symlink():
                final.rename(work / "old")
            (work / "new").rename(final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return Copied(files, skipped, changed)


def _final(remote: str, target: Path) -> Path:
    """As `cp` does it: into a folder that is there, else under the name that is given."""
    if target.is_dir():
        name = posixpath.basename(posixpath.normpath(remote))
        if name in ("", ".", ".."):
            raise UsageError(f"{remote}: has no name of its own: give the copy's whole path")
        return target / name
    if not target.parent.is_dir() or str(target).endswith("/"):
        raise UsageError(f"{target}: there is no such folder to put it into")
    return target


def _header(source: io.BufferedReader, transfer: _Transfer) -> tuple[str, int]:
    line = source.readline(HEADER_BYTES_MAX)
    words = line.split()
    if len(words) == 3 and words[0] == b"REM-CP" and words[2].isdigit():
        kind = words[1].decode("latin-1")
        if kind in ("d", "f"):
            return kind, int(words[2])
    transfer.finish("copying out of the guest")
    raise RemError(f"copying out of the guest: it answers {shown(line)}")


def _budget(announced_bytes: int, folder: Path) -> Budget:
    """What may be written: what was announced, and never the last of the disk."""
    about = os.statvfs(folder)
    free_bytes = about.f_bavail * about.f_frsize - RESERVE_BYTES
    if announced_bytes > free_bytes:
        raise RemError(
            f"{announced_bytes >> 20} MiB to copy; {max(free_bytes, 0) >> 20} MiB may be used "
            f"on the disk of {folder}"
        )
    limit_bytes = int(announced_bytes * GROWTH_SHARE) + GROWTH_BYTES
    return Budget(min(limit_bytes, free_bytes), "the guest announced less")


def _receive(stream: TarStream, work: Path, kind: str, budget: Budget) -> int:
    """Write what comes below work/new; returns the number of files."""
    root = work
    if kind == "d":
        root = work / "new"
        root.mkdir()
    files = 0
    with Tree(root, LinkPolicy.REFUSE, budget) as tree:
        for entry in stream.entries():
            files += entry.kind is not Kind.DIRECTORY
            if kind == "d":
                write_entry(tree, stream, entry, entry.path, owners=False)
            elif files == 1 and entry.kind is Kind.FILE:
                write_entry(tree, stream, entry, ("new",), owners=False)
            else:
                raise ArchiveError(f"{shown(entry.name)}: a {entry.kind} where one file is copied")
        if kind == "f" and files != 1:
            raise ArchiveError("the guest sent no file")
        tree.finish()
    return files


def _check_links(top: Path, skip: bool) -> tuple[str, ...]:
    """Links must stay inside of what is copied: programs of the host will follow them."""
    skipped = []
    if top.is_symlink() or not top.is_dir():
        return ()
    for where, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(where) / name
            parts = path.relative_to(top).parts
            if not path.is_symlink() or not leads_outside(top, parts):
                continue
            if not skip:
                raise ArchiveError(
                    f"{shown('/'.join(parts))} is a link to {shown(os.readlink(path))}, outside of "
                    "what is copied: --skip-links leaves such links out"
                )
            skipped.append("/".join(parts))
            path.unlink()
    return tuple(skipped)


class _CountedSource:
    def __init__(self, source: io.BufferedReader, advance: Advance) -> None:
        self._source, self._advance = source, advance

    def read(self, size: int, /) -> bytes:
        data = self._source.read(size)
        self._advance(len(data))
        return data


class _Transfer:
    """ssh with its two streams; its messages are read aside, so that it never waits for us."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self._message = b""
        self._reader = threading.Thread(target=self._read, name="rem-cp", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stderr is not None
        pipe = self.child.stderr.buffer  # type: ignore[attr-defined]
        with suppress(ValueError, OSError):
            while data := pipe.read1(CHUNK_BYTES):
                self._message = (self._message + data)[-MESSAGE_BYTES_MAX:]

    def finish(self, what: str, fine: tuple[int, ...] = ()) -> bool:
        """Wait for the end; RemError with the guest's last line unless it is well."""
        assert self.child.stdout is not None
        # Else a guest that goes on sending would wait for us, and we for it.
        self.child.stdout.close()
        code = self.child.wait()
        self._reader.join()
        if code == 0 or code in fine:
            return code != 0
        lines = [line for line in self._message.splitlines() if line.strip()]
        why = shown(lines[-1], MESSAGE_CHARACTERS_MAX) if lines else f"exit {code}"
        raise RemError(f"{what}: {why}")


@contextmanager
def _transfer(argv: list[str]) -> Iterator[_Transfer]:
    pipe = subprocess.PIPE
    child = run.spawn(argv, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        yield _Transfer(child)
    finally:
        with suppress(BrokenPipeError):
            run.end(child)
