# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lab/oci: what becomes of an image layout, and which images are refused.

Goal: layers and whiteouts mean what the image specification says; a hostile image writes nothing
outside of its tree, not more than its limit, and is refused in one line. Method: layouts built for
each rule and each attack; random damage to a valid one.
"""

from __future__ import annotations

import json
import os
import random
import struct
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.archive.limits import ArchiveError, Budget
from lab.archive.tree import LinkPolicy, Tree
from lab.errors import UsageError
from lab.oci.layers import unpack
from lab.oci.layout import INDEX_DEPTH_MAX, LAYERS_MAX, opened, read_image
from lab.oci.service import Service, service_of
from tests.support.oci_builder import INDEX, OCI, LayoutBuilder, compress
from tests.support.tar_builder import Archive

LIMIT_BYTES = 8 << 20
BOMB_BYTES = 256 << 20
MEMORY_BYTES_MAX = 32 << 20
FUZZ_ROUNDS = 600

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: owners of files")


def files(**content: str) -> bytes:
    """An archive of files; `a__b` stands for a/b."""
    made = Archive()
    for name, text in content.items():
        made.file(name.replace("__", "/"), text.encode())
    return made.bytes()


def unpacked(where: Path, into: Path, limit_bytes: int = LIMIT_BYTES) -> Path:
    into.mkdir()
    with opened(where) as layout:
        image = read_image(layout)
        unpack(layout, image, into, limit_bytes, "give more")
    return into


def names(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("untouched", encoding="utf-8")
    return tmp_path / "root"


def refused(where: Path, place: Path, *words: str, limit_bytes: int = LIMIT_BYTES) -> None:
    with pytest.raises(ArchiveError) as caught:
        unpacked(where, place, limit_bytes)
    for word in words:
        assert word in caught.value.message
    assert "\n" not in caught.value.message
    assert (place.parent / "outside").read_text(encoding="utf-8") == "untouched"


@pytest.mark.parametrize("form", ["tar", "gzip", "zstd"])
@pytest.mark.parametrize("as_archive", [False, True])
def test_layers_are_laid_over_each_other(
    tmp_path: Path, place: Path, form: str, as_archive: bool
) -> None:
    built = LayoutBuilder()
    built.layer(files(one="1", two="below"), form)
    built.layer(files(two="above", three="3"), form)
    write = built.write_archive if as_archive else built.write
    root = unpacked(write(tmp_path / "layout"), place)
    assert names(root) == ["one", "three", "two"]
    assert (root / "two").read_text(encoding="utf-8") == "above"


def test_owners_modes_and_capabilities_are_kept(tmp_path: Path, place: Path) -> None:
    made = Archive()
    made.directory("d", mode=0o1777, uid=12, gid=34)
    made.file("d/f", mode=0o4755, uid=1000, gid=100)
    capability = "\x01\x00\x00\x02\x00\x04" + "\0" * 14
    made.file("d/c", pax_headers={"SCHILY.xattr.security.capability": capability})
    built = LayoutBuilder()
    built.layer(made.bytes())
    root = unpacked(built.write(tmp_path / "layout"), place)
    folder, file = (root / "d").stat(), (root / "d" / "f").stat()
    assert (folder.st_mode & 0o7777, folder.st_uid, folder.st_gid) == (0o1777, 12, 34)
    assert (file.st_mode & 0o7777, file.st_uid, file.st_gid) == (0o4755, 1000, 100)
    assert os.getxattr(root / "d" / "c", "security.capability") == capability.encode("latin-1")


def test_whiteouts_remove_what_is_below(tmp_path: Path, place: Path) -> None:
    built = LayoutBuilder()
    built.layer(files(gone="", kept="", d__gone="", d__kept="", folder__x="", folder__y=""))
    built.layer(files(**{".wh.gone": "", "d__.wh.gone": "", ".wh.folder": "", ".wh.never": ""}))
    root = unpacked(built.write(tmp_path / "layout"), place)
    assert names(root) == ["d/kept", "kept"]
    assert not (root / "folder").exists()


@pytest.mark.parametrize("first", [True, False])
def test_opaque_directory_hides_lower_layers_only(tmp_path: Path, place: Path, first: bool) -> None:
    """In whatever order the whiteout and the new files come."""
    marker, own = {"d__.wh..wh..opq": ""}, {"d__new": "", "d__sub__new": ""}
    built = LayoutBuilder()
    built.layer(files(d__old="", d__sub__old="", other=""))
    built.layer(files(**({**marker, **own} if first else {**own, **marker})))
    root = unpacked(built.write(tmp_path / "layout"), place)
    assert names(root) == ["d/new", "d/sub/new", "other"]


def test_whiteout_of_what_the_layer_itself_brings_hides_lower_layers_only(
    tmp_path: Path, place: Path
) -> None:
    built = LayoutBuilder()
    built.layer(files(d__old=""))
    built.layer(files(**{"d__new": "", ".wh.d": ""}))
    root = unpacked(built.write(tmp_path / "layout"), place)
    assert names(root) == ["d/new"]


@pytest.mark.parametrize("name", [".wh.", ".wh...", ".wh..", "d/.wh..wh.x", ".wh.d/file"])
def test_whiteout_of_nothing_is_refused(tmp_path: Path, place: Path, name: str) -> None:
    made = Archive()
    made.file(name, b"")
    built = LayoutBuilder()
    built.layer(made.bytes())
    refused(built.write(tmp_path / "layout"), place, "whiteout")


def test_whiteout_through_a_link_stays_inside(tmp_path: Path, place: Path) -> None:
    lower = Archive()
    lower.symlink("link", "..")
    built = LayoutBuilder()
    built.layer(lower.bytes())
    built.layer(files(**{"link__.wh.outside": "", "link__d__.wh..wh..opq": ""}))
    unpacked(built.write(tmp_path / "layout"), place)
    assert (tmp_path / "outside").exists()


def attack(name: str) -> Callable[[Archive], None]:
    return {
        "dots": lambda a: a.file("../outside", b"overwritten"),
        "absolute": lambda a: a.file("/outside", b"overwritten"),
        "hard link": lambda a: a.hardlink("x", "../outside"),
        "hard link, absolute": lambda a: a.hardlink("x", "/etc/passwd"),
        "block device": lambda a: a.add("dev/sda", tarfile.BLKTYPE, devmajor=8),
        "character device": lambda a: a.add("dev/mem", tarfile.CHRTYPE, devmajor=1, devminor=1),
        "FIFO": lambda a: a.add("fifo", tarfile.FIFOTYPE),
        "sparse": lambda a: a.add("sparse", tarfile.GNUTYPE_SPARSE),
        "long name": lambda a: a.file("x" * 256),
    }[name]


@pytest.mark.parametrize(
    "name",
    ["dots", "absolute", "hard link", "hard link, absolute", "block device", "character device"]
    + ["FIFO", "sparse", "long name"],
)
def test_hostile_entries_are_refused(tmp_path: Path, place: Path, name: str) -> None:
    made = Archive(tarfile.GNU_FORMAT)
    attack(name)(made)
    built = LayoutBuilder()
    built.layer(files(fine=""))
    built.layer(made.bytes())
    refused(built.write(tmp_path / "layout"), place)


def zeros(count_bytes: int) -> bytes:
    made = Archive()
    made.file("zeros", bytes(count_bytes))
    return made.bytes()


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_bomb_is_refused_at_the_limit(tmp_path: Path, place: Path, form: str) -> None:
    """In little memory, and with little written."""
    built = LayoutBuilder()
    built.layer(zeros(BOMB_BYTES), form)
    where = built.write(tmp_path / "layout")
    assert sum(p.stat().st_size for p in where.rglob("*") if p.is_file()) < BOMB_BYTES // 100
    tracemalloc.start()
    try:
        refused(where, place, "more than 8 MiB", "give more")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < MEMORY_BYTES_MAX
    assert sum(p.stat().st_size for p in place.rglob("*")) <= LIMIT_BYTES


def test_bomb_after_the_end_of_the_archive_is_refused(tmp_path: Path, place: Path) -> None:
    built = LayoutBuilder()
    built.layer(files(x="") + bytes(BOMB_BYTES))
    refused(built.write(tmp_path / "layout"), place, "more than")


def test_files_that_replace_each_other_count_each(tmp_path: Path, place: Path) -> None:
    built = LayoutBuilder()
    for _ in range(5):
        built.layer(zeros(2 << 20))
    refused(built.write(tmp_path / "layout"), place, "more than 8 MiB")


def test_zstd_window_of_terabytes_is_refused(tmp_path: Path, place: Path) -> None:
    frame = struct.pack("<I", 0xFD2FB528) + bytes([0x00, 0xF8]) + bytes(8)
    built = LayoutBuilder()
    built.layer(files(x=""), "zstd")
    manifest = built.manifest()
    content = json.loads(built.blobs[manifest["digest"][7:]])
    content["layers"] = [built.blob(frame, f"{OCI}.layer.v1.tar+zstd")]
    where = built.write(tmp_path / "layout", {"manifests": [rewritten(built, manifest, content)]})
    refused(where, place, "zstd")


def rewritten(built: LayoutBuilder, old: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    return built.document(content, old["mediaType"], platform=built.platform)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
@pytest.mark.parametrize("cut", [10, -1])
def test_layer_that_is_cut_off_is_refused(tmp_path: Path, place: Path, form: str, cut: int) -> None:
    built = LayoutBuilder()
    built.layer(zeros(1 << 20), form)
    manifest = built.manifest()
    content = json.loads(built.blobs[manifest["digest"][7:]])
    short = compress(zeros(1 << 20), form)[:cut]
    content["layers"] = [built.blob(short, f"{OCI}.layer.v1.tar+{form}")]
    where = built.write(tmp_path / "layout", {"manifests": [rewritten(built, manifest, content)]})
    refused(where, place)


def one_layer(tmp_path: Path) -> tuple[LayoutBuilder, Path]:
    built = LayoutBuilder()
    built.layer(files(x="content"))
    return built, built.write(tmp_path / "layout")


def test_blob_with_another_content_is_refused(tmp_path: Path, place: Path) -> None:
    """Whichever it is: a layer, the configuration, the manifest."""
    built, where = one_layer(tmp_path)
    for number, digest in enumerate(built.blobs):
        path = where / "blobs" / "sha256" / digest
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        refused(where, place.with_name(f"root-{number}"), "another digest")
        path.write_bytes(data + b"\n")
        refused(where, place.with_name(f"root-{number}-long"), "its descriptor says")
        path.unlink()
        refused(where, place.with_name(f"root-{number}-missing"), "No such file")
        path.write_bytes(data)
    unpacked(where, place)


def test_blob_that_is_a_link_or_a_fifo_is_refused(tmp_path: Path, place: Path) -> None:
    built, where = one_layer(tmp_path)
    path = where / "blobs" / "sha256" / next(iter(built.blobs))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    refused(where, place)
    path.unlink()
    os.mkfifo(path)
    refused(where, place.with_name("second"), "not a regular file")


def test_content_other_than_the_diff_id_is_refused(tmp_path: Path, place: Path) -> None:
    built = LayoutBuilder(diff_ids=["sha256:" + "0" * 64])
    built.layer(files(x=""))
    refused(built.write(tmp_path / "layout"), place, "wrong digest of its content")


def test_blob_twice_in_an_archive_is_refused(tmp_path: Path, place: Path) -> None:
    """One reader would check the first and another use the second."""
    built, _ = one_layer(tmp_path)
    made = Archive()
    for name, data in [*built.files().items(), ("./index.json", b"{}")]:
        made.file(name, data)
    where = tmp_path / "image.tar"
    where.write_bytes(made.bytes())
    refused(where, place, "twice")


def test_compressed_archive_is_a_usage_error(tmp_path: Path, place: Path) -> None:
    built, _ = one_layer(tmp_path)
    where = built.write_archive(tmp_path / "image.tar")
    where.write_bytes(compress(where.read_bytes(), "gzip"))
    with pytest.raises(UsageError, match="decompress it first"):
        unpacked(where, place)


def nested(built: LayoutBuilder, depth: int) -> dict[str, Any]:
    index = {"manifests": [built.manifest()]}
    for _ in range(depth):
        index = {"manifests": [built.document(index, INDEX)]}
    return index


def test_index_in_an_index_is_followed_to_a_bound(tmp_path: Path, place: Path) -> None:
    built = LayoutBuilder()
    built.layer(files(x=""))
    where = built.write(tmp_path / "fine", nested(built, INDEX_DEPTH_MAX))
    unpacked(where, place)
    where = built.write(tmp_path / "deep", nested(built, INDEX_DEPTH_MAX + 1))
    refused(where, place.with_name("second"), "an index in an index")


def test_image_of_another_processor_is_refused(tmp_path: Path, place: Path) -> None:
    built = LayoutBuilder(platform={"os": "linux", "architecture": "arm64"})
    built.layer(files(x=""))
    refused(built.write(tmp_path / "layout"), place, "linux/arm64")


def test_two_images_for_this_processor_are_refused(tmp_path: Path, place: Path) -> None:
    built = LayoutBuilder()
    first = built.manifest()
    built.layer(files(x=""))
    where = built.write(tmp_path / "layout", {"manifests": [first, built.manifest()]})
    refused(where, place, "2 images")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("index.json", "["),
        ("index.json", "[]"),
        ("index.json", '{"manifests": {}}'),
        ("index.json", '{"manifests": [[]]}'),
        ("index.json", '{"manifests": [{"digest": "sha256:../../etc/passwd", "size": 1}]}'),
        ("index.json", '{"manifests": [{"digest": "md5:00", "size": 1}]}'),
        ("index.json", '{"manifests": [{"digest": "sha256:' + "0" * 64 + '", "size": true}]}'),
        ("index.json", '{"manifests": [{"digest": "sha256:' + "0" * 64 + '", "size": -1}]}'),
        ("index.json", "[" * 100_000),
        ("index.json", '{"a": "' + "x" * (5 << 20) + '"}'),
        ("oci-layout", "\x00\xff"),
    ],
)
def test_damaged_documents_are_refused(tmp_path: Path, place: Path, name: str, text: str) -> None:
    _, where = one_layer(tmp_path)
    (where / name).write_text(text, encoding="latin-1")
    refused(where, place)


def test_too_many_layers_are_refused(tmp_path: Path, place: Path) -> None:
    built = LayoutBuilder()
    for _ in range(LAYERS_MAX + 1):
        built.layer(files(x=""), "tar")
    refused(built.write(tmp_path / "layout"), place, "at most")


def service(process: dict[str, Any], root: Path, **accounts: str) -> Service | None:
    (root / "etc").mkdir(exist_ok=True)
    for name, text in accounts.items():
        (root / "etc" / name).write_text(text, encoding="utf-8")
    with Tree(root, LinkPolicy.INSIDE, Budget(0, "")) as tree:
        return service_of(process, tree)


PASSWD = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/var/www:/bin/false\nbad line\n"
GROUP = "root:x:0:\nweb:x:34:\nmore:x:50:root,web\nother:x:51:\n"


def test_service_is_what_the_image_says(tmp_path: Path) -> None:
    process = {
        "Entrypoint": ["/bin/serve", "--name", "a b\nc"],
        "Cmd": ["x"],
        "Env": ["A=1", "PATH=/bin"],
        "WorkingDir": "/srv",
        "User": "web",
        "StopSignal": "SIGQUIT",
    }
    found = service(process, tmp_path, passwd=PASSWD, group=GROUP)
    assert found is not None
    assert found.argv == ("/bin/serve", "--name", "a b\nc", "x")
    assert found.env == ("A=1", "PATH=/bin", "HOME=/var/www")
    assert (found.uid, found.gid, found.groups, found.cwd) == (33, 34, (50,), "/srv")
    assert found.stop_signal == 3
    assert b"arg=a b\nc\0arg=x\0" in found.as_bytes()


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("", (0, 0, (50,))),
        ("33", (33, 34, (50,))),
        ("1000", (1000, 0, ())),
        ("1000:other", (1000, 51, ())),
        ("web:99", (33, 99, ())),
    ],
)
def test_user_of_an_image(tmp_path: Path, user: str, expected: tuple[int, int, Any]) -> None:
    found = service({"Cmd": ["x"], "User": user}, tmp_path, passwd=PASSWD, group=GROUP)
    assert found is not None
    assert (found.uid, found.gid, found.groups) == expected


def test_image_without_a_program_has_no_service(tmp_path: Path) -> None:
    assert service({"Env": ["A=1"]}, tmp_path) is None


@pytest.mark.parametrize(
    "process",
    [
        {"Cmd": "sh -c x"},
        {"Cmd": [1]},
        {"Cmd": ["a\0b"]},
        {"Cmd": ["\ud800"]},
        {"Cmd": ["x" * (1 << 18)]},
        {"Cmd": ["x"] * 5000},
        {"Cmd": ["x"], "User": "nobody-there"},
        {"Cmd": ["x"], "User": "0:nobody-there"},
        {"Cmd": ["x"], "User": "4294967295"},
        {"Cmd": ["x"], "User": "٣"},
        {"Cmd": ["x"], "Env": {"A": "1"}},
        {"Cmd": ["x"], "StopSignal": "KILLALL"},
        {"Cmd": ["x"], "StopSignal": "0"},
        {"Cmd": ["x"], "WorkingDir": 3},
    ],
)
def test_impossible_services_are_refused(tmp_path: Path, process: dict[str, Any]) -> None:
    with pytest.raises(ArchiveError):
        service(process, tmp_path, passwd=PASSWD, group=GROUP)


@pytest.mark.parametrize("target", ["/etc/shadow", "../../../../../../etc/shadow", "/dev/zero"])
def test_accounts_are_those_of_the_image(tmp_path: Path, target: str) -> None:
    """A link in the image means a file of the image, and a device there is not read."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").symlink_to(target)
    with pytest.raises(ArchiveError, match="not in its /etc/passwd"):
        service({"Cmd": ["x"], "User": "root"}, tmp_path)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out))
        kind = chance.randrange(3)
        if kind == 0:
            out[at] = chance.randrange(256)
        elif kind == 1:
            del out[at : at + chance.randint(1, 40)]
        else:
            out[at:at] = chance.choice([b"..", b"/", b"[", b"{", b"null", b"-1", b"1e9", b'"'])
        if not out:
            break
    return bytes(out)


def test_damaged_layouts_are_refused_or_confined(tmp_path: Path) -> None:
    """Damage to any file, digests made right again, so that the damage is read and not refused."""
    chance = random.Random(1)
    layer = Archive()
    layer.directory("d")
    layer.symlink("l", "../..")
    layer.file("l/x", b"content" * 50)
    layer.file(".wh.nothing", b"")
    data = layer.bytes()
    process = {"Entrypoint": ["/bin/x"], "User": "web", "Env": ["A=1"]}
    (tmp_path / "outside").write_text("untouched", encoding="utf-8")
    fine = 0
    for number in range(FUZZ_ROUNDS):
        built = LayoutBuilder(process=process)
        built.layer(files(etc__passwd=PASSWD, etc__group=GROUP))
        target = chance.choice(["layer", "blob", "config", "manifest", "index"])
        built.layer(_damaged(data, chance) if target == "layer" else data)
        where = damaged_layout(built, target, chance, tmp_path / f"layout-{number}")
        place = tmp_path / f"root-{number}"
        try:
            unpacked(where, place)
            with opened(where) as layout, Tree(place, LinkPolicy.INSIDE, Budget(0, "")) as tree:
                service_of(read_image(layout).config, tree)
            fine += 1
        except ArchiveError as error:
            assert "\n" not in error.message
        assert (tmp_path / "outside").read_text(encoding="utf-8") == "untouched"
    assert 0 < fine < FUZZ_ROUNDS


def damaged_layout(built: LayoutBuilder, target: str, chance: random.Random, where: Path) -> Path:
    """With one document or layer's blob damaged; who refers to it knows its new digest."""
    manifest = built.manifest()
    content = json.loads(built.blobs[manifest["digest"][7:]])
    if target == "blob":
        old = content["layers"][1]
        data = _damaged(built.blobs[old["digest"][7:]], chance)
        content["layers"][1] = built.blob(data, old["mediaType"])
    if target == "config":
        old = content["config"]
        content["config"] = built.blob(
            _damaged(built.blobs[old["digest"][7:]], chance), old["mediaType"]
        )
    data = json.dumps(content).encode()
    if target == "manifest":
        data = _damaged(data, chance)
    index = {"manifests": [built.blob(data, manifest["mediaType"])]}
    found = built.write(where, index)
    if target == "index":
        path = found / "index.json"
        path.write_bytes(_damaged(path.read_bytes(), chance))
    return found
