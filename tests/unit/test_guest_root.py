# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Roots of guests: what a person may ask for, and what is written into a tree that nobody trusts.

Goal: wrong words are one line before anything is built; additions to a root stay inside of it,
whatever links it has. Method: small trees with links that lead outside.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lab.archive.limits import ArchiveError, Budget
from lab.errors import UsageError
from lab.guest_root import folder
from lab.guest_root.additions import Addition
from lab.guest_root.image import make_ext4
from lab.guest_root.oci_root import oci_key, root_from_oci
from lab.guest_root.packages import explained
from lab.guest_root.personalise import SHELL, personalise
from lab.guest_root.spec import RootSpec, parse_packages
from lab.oci.service import Service
from lab.run import run
from lab.setup.packages import BUSYBOX
from tests.support.oci_builder import LayoutBuilder
from tests.support.tar_builder import Archive

KEY = "ssh-ed25519 AAAA test"


def test_packages_are_a_set() -> None:
    assert parse_packages("nginx, g++,nginx") == ("g++", "nginx")


@pytest.mark.parametrize(
    "text", ["", "a,", "nginx-", "-o=x", "a b", "?installed", "a=1", "A", "x\n"]
)
def test_invalid_package_name_is_refused(text: str) -> None:
    """Some of these apt would understand, as something else than a name."""
    with pytest.raises(UsageError, match="not a valid name of a Debian package"):
        parse_packages(text)


def test_two_roots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one of them"):
        RootSpec(packages=("nginx",), oci=tmp_path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("E: Unable to locate package ngnix", "no package ngnix"),
        ("E: Package 'x-y' has no installation candidate", "no package x-y"),
        ("E: Unable to correct problems, you have held broken packages.", "together"),
    ],
)
def test_what_apt_says_of_names_becomes_one_line(line: str, words: str) -> None:
    error = explained(["I: installing", line, "E: mmdebstrap failed to run"])
    assert error is not None and words in error.message


def test_other_failures_of_apt_are_no_usage_errors() -> None:
    assert explained(["E: Failed to fetch http://deb.example/x  Connection failed"]) is None


def prepared(root: Path, **more: object) -> None:
    additions = [Addition("/sbin/rem-init", b"init", 0o755)]
    personalise(root, additions, BUSYBOX, KEY, **more)  # type: ignore[arg-type]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty root, beside a folder that must stay empty."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_empty_root_can_boot_and_be_reached(root: Path) -> None:
    prepared(root)
    assert (root / "sbin" / "rem-init").stat().st_mode & 0o777 == 0o755
    assert all((root / name).is_dir() for name in ("dev", "proc", "sys", "run", "tmp"))
    assert (root / "etc" / "passwd").read_text(
        encoding="utf-8"
    ) == f"root:x:0:0:root:/root:{SHELL}\n"
    assert (root / "etc" / "shells").read_text(encoding="utf-8") == f"{SHELL}\n"
    keys = root / "root" / ".ssh" / "authorized_keys"
    assert keys.read_text(encoding="utf-8") == f"{KEY}\n"
    assert [stat.S_IMODE(p.stat().st_mode) for p in (keys, keys.parent)] == [0o600, 0o700]
    assert os.readlink(root / "opt/rem/applets/tar") == "/opt/rem/bin/busybox"


def test_accounts_that_work_are_left_alone(root: Path) -> None:
    (root / "etc").mkdir()
    (root / "bin").mkdir()
    (root / "bin" / "ash").write_text("", encoding="utf-8")
    (root / "bin" / "ash").chmod(0o755)
    text = "root:x:0:0:root:/var/root:/bin/ash\nweb:x:1:1::/:/bin/false\n"
    (root / "etc" / "passwd").write_text(text, encoding="utf-8")
    prepared(root)
    assert (root / "etc" / "passwd").read_text(encoding="utf-8") == text
    assert (root / "etc" / "shells").read_text(encoding="utf-8") == "/bin/ash\n"
    assert (root / "var" / "root" / ".ssh" / "authorized_keys").exists()


def test_account_without_its_shell_gets_one(root: Path) -> None:
    (root / "etc").mkdir()
    text = "web:x:1:1::/:/bin/false\nroot:x:0:0:root:/var/home:/bin/bash\n"
    (root / "etc" / "passwd").write_text(text, encoding="utf-8")
    prepared(root)
    lines = (root / "etc" / "passwd").read_text(encoding="utf-8").splitlines()
    assert lines == [f"root:x:0:0:root:/var/home:{SHELL}", "web:x:1:1::/:/bin/false"]


@pytest.mark.parametrize("target", ["../outside", "/../outside"])
@pytest.mark.parametrize("name", ["etc", "sbin", "root", "opt", "dev", "tmp"])
def test_links_of_a_root_lead_nowhere_outside(root: Path, name: str, target: str) -> None:
    (root / name).symlink_to(target)
    prepared(root)
    assert os.listdir(root.parent / "outside") == []


def test_link_to_a_file_outside_is_replaced(root: Path) -> None:
    victim = root.parent / "outside" / "victim"
    victim.write_text("untouched", encoding="utf-8")
    (root / "etc").mkdir()
    for name in ("passwd", "hosts", "hostname", "shells"):
        (root / "etc" / name).symlink_to(victim)
    prepared(root)
    assert victim.read_text(encoding="utf-8") == "untouched"
    assert not (root / "etc" / "hosts").is_symlink()


def test_files_that_are_links_to_a_product_are_not_written_to(root: Path) -> None:
    """The tree of a root is made of hard links to the base's files."""
    base = root.parent / "hosts"
    base.write_text("base", encoding="utf-8")
    (root / "etc").mkdir()
    os.link(base, root / "etc" / "hosts")
    prepared(root)
    assert base.read_text(encoding="utf-8") == "base"
    assert "remanence" in (root / "etc" / "hosts").read_text(encoding="utf-8")


def test_service_is_written_for_init(root: Path) -> None:
    prepared(root, service=Service(("/bin/x",), ("A=1",), "/", 1, 2, (3,), 15))
    data = (root / "opt/rem/service").read_bytes()
    assert data == b"uid=1\0gid=2\0cwd=/\0group=3\0env=A=1\0arg=/bin/x\0"
    assert (root / "opt/rem/stop-signal").read_text(encoding="utf-8") == "15\n"


def test_image_holds_the_tree_and_grows_with_it(root: Path, tmp_path: Path) -> None:
    (root / "file").write_bytes(b"x" * (40 << 20))
    for number in range(300):
        (root / f"small-{number}").touch()
    size_bytes = make_ext4(root, tmp_path / "image", 16 << 20)
    assert size_bytes == (tmp_path / "image").stat().st_size > 40 << 20
    run(["e2fsck", "-fn", tmp_path / "image"])
    shown = run(["debugfs", "-R", "ls -p /", tmp_path / "image"]).stdout
    assert "/small-299/" in shown


def fill(root: Path) -> None:
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "sh").write_bytes(b"#!")
    (root / "dev").mkdir()
    os.mkfifo(root / "dev" / "initctl")
    (root / "link").symlink_to("/etc/passwd")


def test_folder_is_copied_without_what_is_mounted(tmp_path: Path) -> None:
    fill(tmp_path / "source")
    (tmp_path / "tree").mkdir()
    spec = RootSpec(oci=tmp_path / "source")
    assert root_from_oci(spec, tmp_path / "tree") is None
    assert os.listdir(tmp_path / "tree" / "dev") == []
    assert os.readlink(tmp_path / "tree" / "link") == "/etc/passwd"


def test_folder_that_is_no_root_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither an image layout"):
        folder.check(tmp_path, Budget(1 << 20, ""))
    fill(tmp_path)
    with pytest.raises(ArchiveError, match="give less"):
        folder.check(tmp_path, Budget(1 << 10, "give less"))
    os.mkfifo(tmp_path / "bin" / "fifo")
    with pytest.raises(ArchiveError, match="bin/fifo"):
        folder.check(tmp_path, Budget(1 << 20, ""))


def test_key_of_a_folder_changes_with_it(tmp_path: Path) -> None:
    fill(tmp_path)
    spec = RootSpec(oci=tmp_path)
    before = oci_key(spec)
    assert oci_key(spec) == before
    (tmp_path / "bin" / "sh").write_bytes(b"#?")
    assert oci_key(spec) != before


def test_key_of_an_image_is_its_content(tmp_path: Path) -> None:
    made = Archive()
    made.file("bin/x")
    built = LayoutBuilder(process={"Cmd": ["/bin/x"]})
    built.layer(made.bytes())
    first = oci_key(RootSpec(oci=built.write(tmp_path / "layout")))
    assert oci_key(RootSpec(oci=built.write_archive(tmp_path / "image.tar"))) == first
    built.layer(made.bytes())
    assert oci_key(RootSpec(oci=built.write(tmp_path / "another"))) != first
