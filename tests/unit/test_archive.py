# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lab/archive: what is written of an archive from an untrusted source, and what is refused.

Goal: nothing outside of the directory is reached, memory and output are bounded, each refusal is
one line. Method: archives built for each attack; random damage to valid ones.
"""

from __future__ import annotations

import io
import os
import random
import stat
import tarfile
from pathlib import Path

import pytest

from lab.archive.extract import write_entry
from lab.archive.limits import ENTRIES_MAX, ArchiveError, Budget, shown
from lab.archive.tar_stream import HEADER_BYTES_MAX, TarStream, parse_pax
from lab.archive.tree import LinkPolicy, Tree, leads_outside
from tests.support.tar_builder import TIME_S, Archive, header, pax

LIMIT_BYTES = 1 << 20
FUZZ_ROUNDS = 1500


class CountingSource:
    """A source that knows the largest read that was asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)
        self.largest_bytes = 0

    def read(self, size: int, /) -> bytes:
        assert size >= 0
        self.largest_bytes = max(self.largest_bytes, size)
        return self._data.read(size)


def unpack(
    data: bytes,
    into: Path,
    links: LinkPolicy = LinkPolicy.INSIDE,
    limit_bytes: int = LIMIT_BYTES,
    owners: bool = False,
) -> Budget:
    into.mkdir(exist_ok=True)
    budget = Budget(limit_bytes, "take less")
    stream = TarStream(io.BytesIO(data))
    with Tree(into, links, budget) as tree:
        for entry in stream.entries():
            write_entry(tree, stream, entry, entry.path, owners)
        tree.finish()
    return budget


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder to unpack into, beside a file that must stay as it is."""
    (tmp_path / "outside").write_text("untouched", encoding="utf-8")
    return tmp_path / "root"


def assert_confined(place: Path) -> None:
    assert sorted(p.name for p in place.parent.iterdir()) in (["outside"], ["outside", "root"])
    assert (place.parent / "outside").read_text(encoding="utf-8") == "untouched"


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_ordinary_archive_is_written_as_it_is(place: Path, form: int) -> None:
    made = Archive(form)
    made.directory("./", mode=0o750)
    made.directory("a/b", mode=0o500)
    made.file("a/b/" + "long-" * 18 + "name", b"x" * 70_000, mode=0o4751)
    made.file("plain")
    made.symlink("a/link", "b")
    made.hardlink("second", "plain")
    unpack(made.bytes(), place)
    long = place / "a" / "b" / ("long-" * 18 + "name")
    assert long.read_bytes() == b"x" * 70_000
    assert stat.S_IMODE(long.stat().st_mode) == 0o751  # set-user-ID only with owners
    assert long.stat().st_mtime == TIME_S
    assert stat.S_IMODE((place / "a" / "b").stat().st_mode) == 0o500
    assert (place / "a" / "b").stat().st_mtime == TIME_S
    assert stat.S_IMODE(place.stat().st_mode) == 0o750
    assert os.readlink(place / "a" / "link") == "b"
    assert (place / "second").samefile(place / "plain")


def test_pax_times_and_long_names(place: Path) -> None:
    name = "/".join(["d" * 200] * 3)
    made = Archive()
    made.file(name, mtime=TIME_S + 0.25)
    unpack(made.bytes(), place)
    assert (place / name).stat().st_mtime_ns == TIME_S * 10**9 + 250_000_000


def test_later_entry_replaces_an_earlier_one(place: Path) -> None:
    made = Archive()
    made.directory("name")
    made.file("name/inside")
    made.file("name", b"file")
    made.symlink("name2", "name")
    made.file("name2", b"not through the link")
    unpack(made.bytes(), place)
    assert (place / "name").read_bytes() == b"file"
    assert not (place / "name2").is_symlink()


def refused(data: bytes, place: Path, *words: str, **options: object) -> None:
    with pytest.raises(ArchiveError) as caught:
        unpack(data, place, **options)  # type: ignore[arg-type]
    for word in words:
        assert word in caught.value.message
    assert "\n" not in caught.value.message
    assert_confined(place)


@pytest.mark.parametrize(
    "name", ["../outside", "a/../../outside", "/etc/passwd", "a/..", "..", "x" * 256, "d/" * 257]
)
def test_bad_names_are_refused(place: Path, name: str) -> None:
    made = Archive()
    made.file(name)
    refused(made.bytes(), place)


def test_name_longer_than_a_path_is_refused(place: Path) -> None:
    made = Archive()
    made.file("/".join(["d" * 200] * 25))
    refused(made.bytes(), place, "a name of more than")


def test_nul_in_a_name_is_refused(place: Path) -> None:
    record = b"15 path=a\0/b/c\n"
    data = pax(record) + header("x", tarfile.REGTYPE)
    refused(data, place, "NUL")


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.CHRTYPE, "a character device"),
        (tarfile.BLKTYPE, "a block device"),
        (tarfile.FIFOTYPE, "a FIFO"),
        (tarfile.GNUTYPE_SPARSE, "a sparse file"),
        (b"D", "of type 'D'"),
        (b"V", "of type 'V'"),
    ],
)
def test_special_files_are_refused_by_name(place: Path, kind: bytes, what: str) -> None:
    refused(header("dev/sda", kind), place, "'dev/sda'", what)
    assert not (place / "dev").exists()


def test_sparse_file_of_pax_is_refused(place: Path) -> None:
    data = pax(b"22 GNU.sparse.major=1\n") + header("big", tarfile.REGTYPE)
    refused(data, place, "'big'", "sparse")


def test_write_through_a_link_stays_inside(place: Path) -> None:
    """A link in an image means a place in that image."""
    made = Archive()
    made.directory("target")
    made.symlink("absolute", "/target")
    made.symlink("above", "../../../../target")
    made.symlink("chain", "absolute/../absolute")
    made.file("absolute/one")
    made.file("above/two")
    made.file("chain/three")
    unpack(made.bytes(), place)
    assert sorted(p.name for p in (place / "target").iterdir()) == ["one", "three", "two"]
    assert_confined(place)


@pytest.mark.parametrize("target", ["..", "/", "../outside", "."])
def test_write_through_a_link_is_refused_where_links_are(place: Path, target: str) -> None:
    made = Archive()
    made.symlink("link", target)
    made.file("link/written")
    refused(made.bytes(), place, "goes through a symbolic link", links=LinkPolicy.REFUSE)


def test_links_in_a_circle_are_refused(place: Path) -> None:
    made = Archive()
    made.symlink("one", "two")
    made.symlink("two", "one")
    made.file("one/file")
    refused(made.bytes(), place, "too many links")


def test_many_steps_of_one_link_are_refused(place: Path) -> None:
    made = Archive()
    made.directory("a")
    made.symlink("long", "a/../" * 800)
    made.symlink("longer", "long/" * 10)
    made.file("longer/file")
    refused(made.bytes(), place, "too many links")


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("/etc/passwd", "an absolute name"),
        ("../outside", "'..'"),
        ("missing", "not a file of the archive"),
        ("folder", "not a file of the archive"),
        (".", "to nothing"),
    ],
)
def test_hard_link_to_elsewhere_is_refused(place: Path, target: str, what: str) -> None:
    made = Archive()
    made.directory("folder")
    made.hardlink("link", target)
    refused(made.bytes(), place, what)


def test_hard_link_through_a_link_stays_inside(place: Path) -> None:
    made = Archive()
    made.symlink("up", "..")
    made.hardlink("stolen", "up/outside")
    refused(made.bytes(), place, "not a file of the archive")


def test_hard_link_to_a_link_is_no_way_out(place: Path) -> None:
    """The link itself gets another name; a later file of that name replaces it."""
    made = Archive()
    made.symlink("link", "../outside")
    made.hardlink("again", "link")
    made.file("again", b"overwritten")
    unpack(made.bytes(), place)
    assert (place / "again").read_bytes() == b"overwritten"
    assert_confined(place)


def test_more_than_the_budget_is_refused_before_it_is_written(place: Path) -> None:
    made = Archive()
    made.file("small", b"x" * 1000)
    made.file("large", b"x" * LIMIT_BYTES)
    refused(made.bytes(), place, "more than 1 MiB", "take less")
    assert [p.name for p in place.iterdir()] == ["small"]


def test_claimed_size_alone_is_refused(place: Path) -> None:
    refused(header("huge", tarfile.REGTYPE, 1 << 50), place, "more than 1 MiB")


@pytest.mark.parametrize("names", [["f"] * 10, ["a/b/c/d/e/f/g/h/i/j"]])
def test_too_many_entries_are_refused(place: Path, names: list[str]) -> None:
    """Directories that nobody lists count, too."""
    place.mkdir()
    made = Archive()
    for name in names:
        made.file(name, b"")
    stream = TarStream(io.BytesIO(made.bytes()))
    budget = Budget(LIMIT_BYTES, "", left_entries=9)
    with (
        pytest.raises(ArchiveError, match=f"more than {ENTRIES_MAX} files"),
        Tree(place, LinkPolicy.INSIDE, budget) as tree,
    ):
        for entry in stream.entries():
            write_entry(tree, stream, entry, entry.path, owners=False)


def test_attacks_succeed_where_nothing_is_checked(place: Path) -> None:
    """Or the tests above show nothing: Python's own unpacking writes outside by these archives."""
    made = Archive()
    made.symlink("link", "..")
    made.file("link/outside", b"overwritten")
    with tarfile.open(fileobj=io.BytesIO(made.bytes())) as tar:
        # Debian 12's Python checks nothing; later ones check unless they are asked not to.
        checks = hasattr(tarfile, "fully_trusted_filter")
        tar.extractall(place, **({"filter": "fully_trusted"} if checks else {}))
    assert (place.parent / "outside").read_text(encoding="utf-8") == "overwritten"


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_large_header_is_refused_unread(place: Path, kind: bytes) -> None:
    source = CountingSource(header("h", kind, HEADER_BYTES_MAX + 1) + bytes(4 << 20))
    with pytest.raises(ArchiveError, match="a header of"):
        list(TarStream(source).entries())
    assert source.largest_bytes <= HEADER_BYTES_MAX


def test_endless_headers_are_refused(place: Path) -> None:
    refused(pax(b"9 aa=bbb\n") * 1000, place, "headers before one file")


@pytest.mark.parametrize(
    "record",
    [
        b"5 a=b\n",
        b"0 a=b\n",
        b"6 a=b\n0.c=d\n",
        b"99 a=b\n",
        b"6 ab\n",
        b"6 =bc\n",
        b"-6 a=b\n",
        b" a=b\n",
        b"6 a=bX",
    ],
)
def test_damaged_pax_header_is_refused(place: Path, record: bytes) -> None:
    with pytest.raises(ArchiveError, match="pax header"):
        parse_pax(record)


def test_pax_header_of_many_digits_takes_no_time() -> None:
    """A regular expression over these would run for minutes."""
    with pytest.raises(ArchiveError):
        parse_pax(b"1" * HEADER_BYTES_MAX)


@pytest.mark.parametrize("record", [b"21 mtime=1e999999999\n", b"13 mtime=nan\n"])
def test_impossible_time_is_ignored(place: Path, record: bytes) -> None:
    unpack(pax(record) + header("x", tarfile.REGTYPE), place)
    assert (place / "x").stat().st_mtime == 0


@pytest.mark.parametrize("record", [b"12 size=1x2\n", b"12 uid=-123\n", b"18 uid=4294967295\n"])
def test_impossible_number_is_refused(place: Path, record: bytes) -> None:
    refused(pax(record) + header("x", tarfile.REGTYPE), place, "damaged")


@pytest.mark.parametrize("cut", [100, 512, 700, 1024, 1500])
def test_archive_that_ends_early_is_refused(place: Path, cut: int) -> None:
    made = Archive(tarfile.GNU_FORMAT)
    made.file("a" * 120, b"x" * 1000)
    refused(made.bytes()[:cut], place)


def test_data_after_the_end_is_refused_within_it(place: Path) -> None:
    data = bytes(512) + header("x", tarfile.REGTYPE)
    refused(data, place, "after its end")


def test_names_are_shown_without_control_characters() -> None:
    assert "\x1b" not in shown("a\x1b[31m\u202eb")
    assert len(shown("x" * 10_000)) < 200


@pytest.mark.parametrize(
    ("links", "outside"),
    [
        ({"l": "a"}, False),
        ({"l": "missing/a"}, False),
        ({"l": "missing/../../x"}, True),
        ({"l": "/a"}, True),
        ({"l": ".."}, True),
        ({"a/b/c/d": "../../../a", "a/b/l": "c/d/../.."}, True),
        ({"a/l": "../a/b"}, False),
        ({"a/b/abs": "/", "l": "a/b/abs/x"}, True),
        ({"l": "l"}, True),
    ],
)
def test_where_links_lead(tmp_path: Path, links: dict[str, str], outside: bool) -> None:
    """By the real way through other links: the names alone do not show it."""
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    assert leads_outside(tmp_path, tuple(name.split("/"))) is outside


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, most of them in headers; checksums are made right again."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(out) // 512) * 512
        at = start + chance.choice([chance.randrange(512), 124 + chance.randrange(34)])
        out[at] = chance.choice([chance.randrange(256), ord("/"), ord("."), 0, 0xFF, ord("7")])
        if chance.random() < 0.8:
            total = sum(out[start : start + 148]) + 8 * 32 + sum(out[start + 156 : start + 512])
            out[start + 148 : start + 156] = b"%06o\0 " % total
    if chance.random() < 0.1:
        del out[chance.randrange(len(out)) :]
    return bytes(out)


def test_damaged_archives_are_refused_or_confined(tmp_path: Path) -> None:
    """Any damage: an ArchiveError or files inside, never more bytes than the budget."""
    made = Archive()
    made.directory("a")
    made.file("a/" + "n" * 120, b"x" * 700, mtime=TIME_S + 0.5)
    made.symlink("l", "../../outside")
    made.hardlink("h", "a/" + "n" * 120)
    made.file("l2/x", b"y" * 600)
    data = made.bytes()
    chance = random.Random(1)
    refusals = 0
    for number in range(FUZZ_ROUNDS):
        folder = tmp_path / str(number % 8)
        folder.mkdir(exist_ok=True)
        (folder / "outside").write_text("untouched", encoding="utf-8")
        place = folder / f"root-{number}"
        try:
            unpack(_damaged(data, chance), place)
        except ArchiveError as error:
            assert "\n" not in error.message
            refusals += 1
        assert (folder / "outside").read_text(encoding="utf-8") == "untouched"
        written = sum(p.lstat().st_size for p in place.rglob("*") if p.is_file())
        assert written <= LIMIT_BYTES
    assert 0 < refusals < FUZZ_ROUNDS
