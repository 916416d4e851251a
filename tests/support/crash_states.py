# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a cut may leave of a program's work on files, from a recording of its system calls.

The model is harsher than ext4: a cut leaves

    of a folder   its names at its last fsync, and any prefix of the changes since then
    of a file     its bytes at its last fsync, or the newest, or the newest with zeros where
                  they were written since, or only zeros; each with its permissions

in any combination. Removal and new name of a rename within one folder are one change; between
folders they are one each. What is not in `Recording` existed, and was durable, before.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# All calls that change files. Those that are not handled below raise.
CHANGING = (
    "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,"
    "unlinkat,rmdir,truncate,ftruncate,fallocate,write,writev,pwrite64,pwritev,pwritev2,sendfile,"
    "copy_file_range,splice,fsync,fdatasync,sync,syncfs,sync_file_range,fchmod,chmod,fchmodat"
)
LINE = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"|<((?:\\x[0-9a-f]{2})+)>')


@dataclass(frozen=True)
class Call:
    """One that succeeded: its name, its paths and strings, its numbers."""

    name: str
    strings: tuple[bytes, ...]
    words: tuple[str, ...]


@dataclass
class File:
    """Bytes and permissions; each version since the last fsync, that of the fsync first."""

    versions: list[tuple[bytes, int]]

    def now(self) -> tuple[bytes, int]:
        return self.versions[-1]

    def possible(self) -> list[tuple[bytes, int]]:
        (old, old_mode), (new, mode) = self.versions[0], self.now()
        if len(self.versions) == 1:
            return [(old, old_mode)]
        same = min(len(old), len(new))
        torn = bytes(b if i < same and b == old[i] else 0 for i, b in enumerate(new))
        return list(
            dict.fromkeys([(old, old_mode), (new, mode), (torn, mode), (bytes(len(new)), mode)])
        )


@dataclass
class Folder:
    """Names at the last fsync, and the changes since then, in order."""

    synced: dict[str, File | Folder] = field(default_factory=dict)
    changes: list[tuple[tuple[str, File | Folder | None], ...]] = field(default_factory=list)

    def names(self, count: int | None = None) -> dict[str, File | Folder]:
        found = dict(self.synced)
        for change in self.changes[:count]:
            for name, what in change:
                if what is None:
                    found.pop(name, None)
                else:
                    found[name] = what
        return found


Tree = dict[str, "tuple[bytes, int] | Tree"]


def tree_on_disk(path: Path) -> Folder:
    found = Folder()
    for entry in sorted(path.iterdir()):
        if entry.is_dir():
            found.synced[entry.name] = tree_on_disk(entry)
        else:
            found.synced[entry.name] = File([(entry.read_bytes(), entry.stat().st_mode & 0o7777)])
    return found


def lay_out(tree: Tree, path: Path) -> None:
    """Replace the content of the folder by a state, as the program would find it."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for name, what in tree.items():
        if isinstance(what, dict):
            lay_out(what, path / name)
        else:
            (path / name).write_bytes(what[0])
            (path / name).chmod(what[1])


def record(argv: list[str], log: Path) -> list[Call]:
    """Run a program under strace."""
    words = [
        "strace",
        "-f",
        "-y",
        "-xx",
        "-s",
        "10000000",
        "-e",
        f"trace={CHANGING}",
        "-o",
        str(log),
    ]
    subprocess.run([*words, *argv], check=True, stdout=subprocess.DEVNULL)
    calls = []
    for line in log.read_text(encoding="ascii").splitlines():
        found = LINE.match(line)
        if found is None:
            assert "exited with" in line, f"a call that is not understood: {line[:200]}"
            continue
        name, text, result = found.groups()
        if int(result) < 0:
            continue
        strings = tuple(
            bytes.fromhex("".join(pair).replace("\\x", "")) for pair in STRING.findall(text)
        )
        calls.append(Call(name, strings, tuple(STRING.sub("", text).split(", "))))
    return calls


class Replay:
    """Applies the calls, one after the other, to a folder as it was."""

    def __init__(self, root: Path, tree: Folder) -> None:
        self.root = str(root)
        self.tree = tree

    def place(self, path: bytes) -> tuple[Folder, str] | None:
        """Its folder, and its name there; None outside the root."""
        text = os.path.abspath(path.decode())
        if not text.startswith(self.root + "/"):
            return None
        *folders, name = text.removeprefix(self.root + "/").split("/")
        at = self.tree
        for folder in folders:
            below = at.names()[folder]
            assert isinstance(below, Folder)
            at = below
        return at, name

    def what(self, path: bytes) -> File | Folder | None:
        if path.decode() == self.root:
            return self.tree
        found = self.place(path)
        return found[0].names().get(found[1]) if found else None

    def do(self, call: Call) -> None:
        handler = getattr(self, f"do_{call.name}", None)
        assert handler is not None, f"{call.name}: the model does not know it"
        handler(call)

    def do_openat(self, call: Call) -> None:
        # The working folder, the path as given, and its target, as strace prints them.
        path, flags = call.strings[1], call.words[2]
        found = self.place(path)
        if found is None or "O_CREAT" not in flags:
            assert found is None or "O_TRUNC" not in flags, "truncated without O_CREAT"
            return
        folder, name = found
        here = folder.names().get(name)
        if isinstance(here, File):
            if "O_TRUNC" in flags:
                here.versions.append((b"", here.now()[1]))
        else:
            folder.changes.append(((name, File([(b"", 0o600)])),))

    def do_mkdir(self, call: Call) -> None:
        found = self.place(call.strings[0])
        if found:
            found[0].changes.append(((found[1], Folder()),))

    def do_rename(self, call: Call) -> None:
        source, target = (self.place(path) for path in call.strings[:2])
        assert source and target
        what = source[0].names()[source[1]]
        if source[0] is target[0]:
            source[0].changes.append(((source[1], None), (target[1], what)))
        else:
            target[0].changes.append(((target[1], what),))
            source[0].changes.append(((source[1], None),))

    def do_unlink(self, call: Call) -> None:
        found = self.place(call.strings[0])
        assert found
        found[0].changes.append(((found[1], None),))

    do_rmdir = do_unlink

    def file(self, call: Call) -> File | None:
        found = self.what(call.strings[0])
        return found if isinstance(found, File) else None

    def do_ftruncate(self, call: Call) -> None:
        file, size = self.file(call), int(call.words[1])
        assert file
        data, mode = file.now()
        file.versions.append((data[:size].ljust(size, b"\0"), mode))

    def do_fallocate(self, call: Call) -> None:
        assert "KEEP_SIZE" in call.words[1]

    def write(self, call: Call, at: int | None) -> None:
        file = self.file(call)
        if file is None:
            return  # standard output
        data, mode = file.now()
        start = len(data) if at is None else at
        new = call.strings[-1]
        whole = data[:start].ljust(start, b"\0") + new + data[start + len(new) :]
        file.versions.append((whole, mode))

    def do_write(self, call: Call) -> None:
        self.write(call, None)

    def do_pwrite64(self, call: Call) -> None:
        self.write(call, int(call.words[-1]))

    def do_fchmod(self, call: Call) -> None:
        file = self.file(call)
        assert file
        file.versions.append((file.now()[0], int(call.words[1], 8)))

    def do_fsync(self, call: Call) -> None:
        found = self.what(call.strings[0])
        if isinstance(found, File):
            del found.versions[:-1]
        elif isinstance(found, Folder):
            found.synced = found.names()
            found.changes.clear()


def states(tree: Folder) -> Iterator[Tree]:
    """All states that a cut may leave of it now."""
    for count in range(len(tree.changes) + 1):
        names = tree.names(count)
        parts: list[list[tuple[bytes, int] | Tree]] = [
            what.possible() if isinstance(what, File) else list(states(what))
            for what in names.values()
        ]
        for chosen in itertools.product(*parts):
            yield dict(zip(names, chosen, strict=True))


def crash_states(calls: list[Call], root: Path, tree: Folder) -> Iterator[tuple[int, Tree]]:
    """Yield the number of completed calls and a state; each state once."""
    seen = set()
    replay = Replay(root, tree)
    for count in range(len(calls) + 1):
        for state in states(replay.tree):
            key = repr(state)
            if key not in seen or count == len(calls):
                seen.add(key)
                yield count, state
        if count < len(calls):
            replay.do(calls[count])
