# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The process that an image describes, as the guest's init starts it.

The file is read by guest/programs/rem-service.c: fields `KEY=VALUE`, each ended by a NUL, because
an argument may hold anything but that.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.archive.limits import ArchiveError, shown
from lab.archive.tree import Tree
from lab.oci.layout import typed

PATH_DEFAULT = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ACCOUNTS_BYTES_MAX = 1 << 20  # of /etc/passwd and /etc/group
# The limit of execve() for one argument (MAX_ARG_STRLEN); that for all together is far larger.
WORD_BYTES_MAX = 128 << 10
WORDS_MAX = 4096
ID_MAX = (1 << 32) - 2


@dataclass(frozen=True)
class Service:
    """A process: its command, user and directory."""

    argv: tuple[str, ...]
    env: tuple[str, ...]
    cwd: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    stop_signal: int

    def as_bytes(self) -> bytes:
        fields = [f"uid={self.uid}", f"gid={self.gid}", f"cwd={self.cwd}"]
        fields += [f"group={number}" for number in self.groups]
        fields += [f"env={word}" for word in self.env]
        fields += [f"arg={word}" for word in self.argv]
        return b"".join(f.encode("utf-8", "surrogateescape") + b"\0" for f in fields)


def service_of(config: dict[str, Any], tree: Tree) -> Service | None:
    """Return the process of an image's configuration; None if it names no program."""
    argv = (*_words(config, "Entrypoint"), *_words(config, "Cmd"))
    if not argv:
        return None
    uid, gid, groups, home = _user(_text(config, "User"), tree)
    env = list(_words(config, "Env"))
    names = {word.partition("=")[0] for word in env}
    env += [f"PATH={PATH_DEFAULT}"] if "PATH" not in names else []
    env += [f"HOME={home}"] if "HOME" not in names else []
    return Service(
        argv=argv,
        env=tuple(env),
        cwd=_text(config, "WorkingDir") or "/",
        uid=uid,
        gid=gid,
        groups=groups,
        stop_signal=_stop_signal(_text(config, "StopSignal")),
    )


def _words(config: dict[str, Any], key: str) -> tuple[str, ...]:
    raw = config.get(key)
    words = [] if raw is None else typed(raw, list, key)
    if len(words) > WORDS_MAX:
        raise ArchiveError(f"{key}: {len(words)} words, at most {WORDS_MAX}")
    return tuple(_checked(typed(word, str, key), key) for word in words)


def _text(config: dict[str, Any], key: str) -> str:
    raw = config.get(key)
    return "" if raw is None else _checked(typed(raw, str, key), key)


def _checked(word: str, key: str) -> str:
    try:
        encoded = word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:  # a lone surrogate: valid in JSON, not in UTF-8
        raise ArchiveError(f"{key}: not valid text: {shown(word)}") from error
    if b"\0" in encoded or len(encoded) > WORD_BYTES_MAX:
        raise ArchiveError(f"{key}: a NUL, or more than {WORD_BYTES_MAX} bytes: {shown(word)}")
    return word


def _stop_signal(text: str) -> int:
    """Parse SIGTERM, TERM, SIGRTMIN+3 or a number."""
    if not text:
        return int(signal.SIGTERM)
    name, plus, offset = text.removeprefix("SIG").partition("+")
    if text.isdigit():
        number = int(text) if len(text) < 4 else 0
    elif f"SIG{name}" in signal.Signals.__members__:
        number = int(signal.Signals[f"SIG{name}"])
        number += int(offset) if plus and offset.isdigit() and len(offset) < 3 else 0
    else:
        number = 0
    if not 0 < number < signal.NSIG:
        raise ArchiveError(f"StopSignal {shown(text)} is not a signal")
    return number


def _user(text: str, tree: Tree) -> tuple[int, int, tuple[int, ...], str]:
    """`USER`, `USER:GROUP`, by name or number: return uid, gid, further groups, home directory."""
    user, colon, group = (text or "0").partition(":")
    accounts = list(_accounts(tree, "passwd", 7))
    groups = list(_accounts(tree, "group", 4))
    found = next((row for row in accounts if user in (row[0], row[2])), None)
    if found is not None:
        name, uid, gid = found[0], _id(found[2], "passwd"), _id(found[3], "passwd")
        home = found[5] or "/"
    elif user.isdigit():
        name, uid, gid, home = None, _id(user, "User"), 0, "/"
    else:
        raise ArchiveError(f"the image's user {shown(user)} is not in its /etc/passwd")
    if colon:
        row = next((row for row in groups if group in (row[0], row[2])), None)
        if row is None and not group.isdigit():
            raise ArchiveError(f"the image's group {shown(group)} is not in its /etc/group")
        return uid, _id(group if row is None else row[2], "User"), (), home
    member = [_id(row[2], "group") for row in groups if name in row[3].split(",")] if name else []
    return uid, gid, tuple(sorted({*member} - {gid})), home


def _accounts(tree: Tree, name: str, columns: int) -> Iterator[list[str]]:
    data = tree.read(("etc", name), ACCOUNTS_BYTES_MAX) or b""
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        row = line.split(":")
        if len(row) == columns and "\0" not in line:
            yield row


def _id(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= ID_MAX):
        raise ArchiveError(f"{what}: {shown(text)} is not a user or group number")
    return int(text)
