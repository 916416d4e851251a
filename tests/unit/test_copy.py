# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem cp` without a machine: the guest's side runs in a shell of the host, or is a hostile script.

Goal: files, folders, modes, times and links arrive; a copy is whole or absent; whatever a guest
sends, nothing outside of the target is written. Method: both ends in temporary folders; archives
built for each attack.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import RemError, UsageError
from lab.machine.copy import Copied, Place, pull, push
from tests.support.tar_builder import Archive, header

TIME_NS = 1_700_000_000_123_456_789


def shell(script: str) -> list[str]:
    """A guest that does what it is asked to."""
    return ["sh", "-c", script]


def sender(answer: bytes, path: Path, code: int = 0) -> Callable[[str], list[str]]:
    """A guest that sends these bytes, whatever it is asked."""
    path.write_bytes(answer)
    return lambda _: ["sh", "-c", f"cat {path}; echo $'\\033[2J no' >&2; exit {code}"]


@pytest.fixture
def ends(tmp_path: Path) -> tuple[Path, Path]:
    host, guest = tmp_path / "host", tmp_path / "guest"
    host.mkdir()
    guest.mkdir()
    return host, guest


def put(reach: Callable[[str], list[str]], source: Path, remote: object, **more: bool) -> Copied:
    return push(reach, source, str(remote), more.get("replace", False), lambda _: lambda _: None)


def get(reach: Callable[[str], list[str]], remote: object, target: Path, **more: bool) -> Copied:
    replace, skip = more.get("replace", False), more.get("skip_links", False)
    return pull(reach, str(remote), target, replace, skip, lambda _: lambda _: None)


def fill(folder: Path) -> Path:
    """A folder with all kinds of things."""
    (folder / "sub dir").mkdir(parents=True)
    (folder / "empty").mkdir(mode=0o700)
    (folder / "sub dir" / "file").write_bytes(bytes(range(256)) * 5000)
    (folder / "sub dir" / "file").chmod(0o4640)
    (folder / ("long-" * 30)).write_bytes(b"")
    (folder / "link").symlink_to("sub dir/file")
    (folder / "to folder").symlink_to("empty")
    os.link(folder / "sub dir" / "file", folder / "second name")
    os.utime(folder / "sub dir" / "file", ns=(TIME_NS, TIME_NS))
    os.utime(folder / "sub dir", ns=(TIME_NS, TIME_NS))
    os.utime(folder, ns=(TIME_NS, TIME_NS))
    return folder


def same(first: Path, second: Path) -> None:
    names = sorted(str(p.relative_to(first)) for p in first.rglob("*"))
    assert names == sorted(str(p.relative_to(second)) for p in second.rglob("*"))
    for name in (".", *names):
        one, other = first / name, second / name
        if one.is_symlink():
            assert os.readlink(one) == os.readlink(other)
            continue
        assert stat.S_IMODE(one.stat().st_mode) & 0o777 == stat.S_IMODE(other.stat().st_mode)
        if one.is_file():
            assert one.read_bytes() == other.read_bytes()
            assert one.stat().st_mtime_ns == other.stat().st_mtime_ns
    assert (second / "sub dir").stat().st_mtime_ns == TIME_NS
    assert second.stat().st_mtime_ns == TIME_NS
    assert (second / "second name").samefile(second / "sub dir" / "file")


def test_folder_arrives_in_the_guest(ends: tuple[Path, Path]) -> None:
    host, guest = ends
    copied = put(shell, fill(host / "tree"), guest)
    assert copied.files == 8
    same(host / "tree", guest / "tree")
    assert [p.name for p in guest.iterdir()] == ["tree"]


def test_folder_arrives_on_the_host(ends: tuple[Path, Path]) -> None:
    host, guest = ends
    get(shell, fill(guest / "tree"), host / "new name")
    same(guest / "tree", host / "new name")
    assert [p.name for p in host.iterdir()] == ["new name"]


@pytest.mark.parametrize("name", ["plain", "with space", "-dash", "quote'$(x)", "new\nline"])
def test_file_of_any_name(ends: tuple[Path, Path], name: str) -> None:
    host, guest = ends
    (host / name).write_bytes(b"\0\xff\r\n")
    put(shell, host / name, f"{guest}/")
    assert (guest / name).read_bytes() == b"\0\xff\r\n"
    get(shell, guest / name, host / "back")
    assert (host / "back").read_bytes() == b"\0\xff\r\n"


def test_file_is_replaced_and_folder_only_if_asked(ends: tuple[Path, Path]) -> None:
    host, guest = ends
    for top in ends:
        (top / "file").write_text(top.name, encoding="utf-8")
        (top / "tree").mkdir()
        (top / "tree" / top.name).touch()
    put(shell, host / "file", guest / "file")
    assert (guest / "file").read_text(encoding="utf-8") == "host"
    with pytest.raises(RemError, match="--replace"):
        put(shell, host / "tree", guest)
    with pytest.raises(UsageError, match="--replace"):
        get(shell, guest / "tree", host)
    assert os.listdir(guest / "tree") == ["guest"]
    get(shell, guest / "tree", host, replace=True)
    assert os.listdir(host / "tree") == ["guest"]
    (host / "tree" / "more").touch()
    put(shell, host / "tree", guest, replace=True)
    assert sorted(os.listdir(guest / "tree")) == ["guest", "more"]
    assert sorted(os.listdir(guest)) == ["file", "tree"]


def test_link_on_the_command_line_is_followed(ends: tuple[Path, Path]) -> None:
    host, guest = ends
    (host / "file").write_text("content", encoding="utf-8")
    (host / "link").symlink_to("file")
    put(shell, host / "link", guest)
    assert not (guest / "link").is_symlink()
    (guest / "other").symlink_to("link")
    get(shell, guest / "other", host)
    assert (host / "other").read_text(encoding="utf-8") == "content"


@pytest.mark.parametrize("remote", ["missing", "missing/", "file/below"])
def test_missing_places_are_one_line(ends: tuple[Path, Path], remote: str) -> None:
    host, guest = ends
    (guest / "file").touch()
    (host / "file").touch()
    with pytest.raises(RemError) as caught:
        get(shell, guest / remote, host)
    assert "\n" not in caught.value.message
    if remote != "missing":  # as a target that is the copy's name
        with pytest.raises(RemError) as caught:
            put(shell, host / "file", f"{guest}/{remote}")
        assert "\n" not in caught.value.message
    assert (os.listdir(host), os.listdir(guest)) == (["file"], ["file"])


@pytest.mark.parametrize("tool", ["mktemp", "mkdir"])
def test_nothing_is_left_of_an_interrupted_copy(ends: tuple[Path, Path], tool: str) -> None:
    """The signal comes when the folder is there and its name not yet known to the shell."""
    host, guest = ends
    tools = host / "tools"
    tools.mkdir()
    (tools / tool).write_text(f'#!/bin/sh\n{shutil.which(tool)} "$@" >&2\nkill -TERM $PPID $$\n')
    (tools / tool).chmod(0o755)
    path = f"PATH={tools}:{os.environ['PATH']}"
    with pytest.raises(RemError):
        put(lambda script: ["env", path, *shell(script)], fill(host / "tree"), guest)
    assert os.listdir(guest) == []


def test_devices_are_refused_and_sockets_left_out(ends: tuple[Path, Path]) -> None:
    host, guest = ends
    (host / "tree").mkdir()
    os.mknod(host / "tree" / "socket", stat.S_IFSOCK | 0o600)
    assert put(shell, host / "tree", guest).skipped == (str(host / "tree" / "socket"),)
    os.mkfifo(host / "tree" / "fifo")
    with pytest.raises(UsageError, match="fifo is a device or a FIFO"):
        put(shell, host / "tree", guest, replace=True)
    assert os.listdir(guest) == ["tree"]
    assert os.listdir(guest / "tree") == []


def test_copy_that_is_cut_off_leaves_nothing_in_the_guest(ends: tuple[Path, Path]) -> None:
    """A stream that ends between two files looks whole to tar."""
    host, guest = ends

    def cut(script: str) -> list[str]:
        return ["sh", "-c", 'head -c 1024 | sh -c "$1"', "sh", script]

    (host / "tree").mkdir()
    with pytest.raises(RemError, match="ended early|Unexpected EOF|tar"):
        put(cut, host / "tree", guest)
    assert os.listdir(guest) == []


def hostile(ends: tuple[Path, Path], answer: bytes, *words: str, code: int = 0) -> None:
    """The copy is refused in one line; the host's folder is as it was."""
    host, guest = ends
    (host.parent / "outside").write_text("untouched", encoding="utf-8")
    with pytest.raises(RemError) as caught:
        get(sender(answer, guest / "answer", code), "/x/tree", host)
    assert "\n" not in caught.value.message
    assert "\x1b" not in caught.value.message
    for word in words:
        assert word in caught.value.message
    assert os.listdir(host) == []
    assert (host.parent / "outside").read_text(encoding="utf-8") == "untouched"


def folder(made: Archive, announced_bytes: int = 1 << 20) -> bytes:
    return b"REM-CP d %d\n" % announced_bytes + made.bytes()


@pytest.mark.parametrize("name", ["../outside", "/etc/cron.d/x", "a/../../outside", "x" * 300])
def test_bad_names_are_refused(ends: tuple[Path, Path], name: str) -> None:
    made = Archive()
    made.file("fine")
    made.file(name)
    hostile(ends, folder(made))


@pytest.mark.parametrize("target", ["..", "/etc", "../outside", "fine/../.."])
def test_writing_through_a_link_is_refused(ends: tuple[Path, Path], target: str) -> None:
    made = Archive()
    made.symlink("link", target)
    made.file("link/x")
    hostile(ends, folder(made), "through a symbolic link")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../outside", "inner/../../.."])
def test_links_that_lead_outside_are_refused(ends: tuple[Path, Path], target: str) -> None:
    made = Archive()
    made.symlink("inner", ".")
    made.symlink("d/link", target)
    hostile(ends, folder(made), "'d/link'", "--skip-links")


def test_links_that_lead_outside_are_left_out_if_asked(ends: tuple[Path, Path]) -> None:
    host, guest = ends
    made = Archive()
    made.symlink("out", "/etc/passwd")
    made.symlink("in", "fine")
    made.file("fine")
    copied = get(sender(folder(made), guest / "a"), "/x/tree", host, skip_links=True)
    assert copied.skipped == ("out",)
    assert sorted(os.listdir(host / "tree")) == ["fine", "in"]


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_from_the_guest_are_refused(ends: tuple[Path, Path], kind: bytes) -> None:
    hostile(ends, b"REM-CP d 100\n" + header("dev", kind), "'dev'")


def test_more_than_announced_is_refused(ends: tuple[Path, Path]) -> None:
    hostile(ends, b"REM-CP d 1\n" + header("big", tarfile.REGTYPE, 1 << 40), "announced less")


def test_more_than_the_disk_holds_is_refused(ends: tuple[Path, Path]) -> None:
    hostile(ends, b"REM-CP d %d\n" % (1 << 60), "may be used")


def test_data_after_the_end_is_refused(ends: tuple[Path, Path]) -> None:
    made = Archive()
    made.file("x")
    hostile(ends, folder(made) + bytes(1 << 20), "after the archive's end")


@pytest.mark.parametrize(
    "answer", [b"", b"\n", b"REM-CP d\n", b"REM-CP x 1\n", b"REM-CP d -1\n", b"x" * 1000]
)
def test_other_answers_are_refused(ends: tuple[Path, Path], answer: bytes) -> None:
    hostile(ends, answer)


def test_archive_that_ends_early_is_refused(ends: tuple[Path, Path]) -> None:
    made = Archive()
    made.file("x", b"y" * 5000)
    hostile(ends, folder(made)[:2000], "ends in the middle")


def test_command_that_fails_after_a_whole_archive_is_an_error(ends: tuple[Path, Path]) -> None:
    made = Archive()
    made.file("x")
    hostile(ends, folder(made), "no", code=255)


@pytest.mark.parametrize("members", [0, 2])
def test_where_one_file_is_copied_there_is_one(ends: tuple[Path, Path], members: int) -> None:
    made = Archive()
    for number in range(members):
        made.file(str(number))
    hostile(ends, b"REM-CP f 100\n" + made.bytes())


def test_folder_where_one_file_is_copied_is_refused(ends: tuple[Path, Path]) -> None:
    made = Archive()
    made.directory("new")
    made.symlink("new/x", "/etc")
    hostile(ends, b"REM-CP f 100\n" + made.bytes())


@pytest.mark.parametrize(
    ("text", "machine", "path"),
    [
        (":/etc", "default", "/etc"),
        (":", "default", "."),
        ("web:x", "web", "x"),
        ("./a:b", None, "./a:b"),
        ("/tmp/a:b", None, "/tmp/a:b"),
        ("plain", None, "plain"),
    ],
)
def test_which_end_is_the_guest(text: str, machine: str | None, path: str) -> None:
    assert Place.parse(text, "default") == Place(machine, path)
