# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Products: the key follows the inputs, an interrupted one is never used, errors are one line.

Method: small invented folders in place of repository, kernel source and cache.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lab.errors import InfraError, RemError
from lab.setup import apt, cache, cargo, host, kernel, kernel_config, layout, rust
from lab.setup.inputs import Inputs

CONTEXT = "int one;\nint two;\nint three;\n"
PATCH = """\
Why this patch is.
--- a/kernel/main.c
+++ b/kernel/main.c
@@ -1,3 +1,4 @@
 int one;
+int added;
 int two;
 int three;
--- /dev/null
+++ b/kernel/new.c
@@ -0,0 +1 @@
+int fresh;
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REM_CACHE", str(tmp_path / "cache"))


def key_of(path: Path) -> str:
    return Inputs("test").add_path(path, "name").key()


def test_key_follows_content_name_and_mode_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    (folder / "sub").mkdir(parents=True)
    file = folder / "sub" / "a.c"
    file.write_text("int a;")
    first = key_of(folder)
    os.utime(file, (1, 1))
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_text("left by a build")
    (folder / "sub" / "a.o").write_text("left by a build")
    assert key_of(folder) == first
    keys = {first}
    file.write_text("int b;")
    keys.add(key_of(folder))
    file.chmod(0o755)
    keys.add(key_of(folder))
    file.rename(folder / "sub" / "b.c")
    keys.add(key_of(folder))
    assert len(keys) == 4


def test_no_two_lists_of_inputs_have_one_key() -> None:
    assert Inputs("k").add("a", "bc").key() != Inputs("k").add("ab", "c").key()
    assert Inputs("k").add("a", "b").key() != Inputs("k").key()
    assert Inputs("k").key() != Inputs("l").key()


def test_an_interrupted_product_is_rebuilt() -> None:
    def interrupted(into: Path) -> None:
        (into / "half").write_text("")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.product("kind", "key", interrupted)

    def whole(into: Path) -> None:
        assert list(into.iterdir()) == []
        (into / "whole").write_text("")

    made = cache.product("kind", "key", whole)
    assert [p.name for p in made.iterdir()] == ["whole"]
    assert cache.product("kind", "key", interrupted) == made  # found, so not called


def test_products_are_recorded_whether_made_or_found() -> None:
    def product(kind: str) -> None:
        cache.product(kind, "0123", lambda _: None)

    product("before")
    for _ in range(2):  # made, then found
        with cache.recorded_products() as outer:
            product("one")
            with cache.recorded_products() as inner:
                product("two")
            product("three")
        assert inner == {"two/0123"}
        assert outer == {"one/0123", "two/0123", "three/0123"}
    product("after")
    assert "after/0123" not in outer


def test_products_with_locks_of_their_own_are_made_beside_each_other() -> None:
    """And all are products of the kind, even if nobody has locked that."""

    def outer(into: Path) -> None:
        cache.product("tree-kind", "other", lambda into: None, "tree-kind-2")

    cache.product("tree-kind", "one", outer, "tree-kind-1")  # would wait for itself
    assert {"tree-kind/one", "tree-kind/other"} <= cache.products()


def test_prune_keeps_the_newest() -> None:
    for number in range(3):
        made = cache.product("kind", f"k{number}", lambda into: None)
        os.utime(made, (number, number))
    cache.prune("kind", kept=2)
    assert sorted(p.name for p in made.parent.iterdir()) == ["k1", "k2"]


@pytest.fixture
def tree(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A repository with one patch and one folder for the kernel, and a kernel source."""
    repo, base = tmp_path / "repo", tmp_path / "base"
    (base / "kernel").mkdir(parents=True)
    (base / "kernel" / "main.c").write_text(CONTEXT)
    (base / "kernel" / "other.c").write_text("int other;\n")
    (repo / "kernel" / "patches").mkdir(parents=True)
    (repo / "kernel" / "patches" / "0001-add.patch").write_text(PATCH)
    (repo / "kernel" / "tree.txt").write_text(
        "# comment\nkernel/stop kernel/remanence/stop\nabsent kernel/absent # not there yet\n"
    )
    (repo / "kernel" / "stop").mkdir()
    (repo / "kernel" / "stop" / "core.c").write_text("int stop;\n")
    work = tmp_path / "tree"
    kernel._clone(base, work)
    return repo, base, work


def sync(repo: Path, base: Path, work: Path) -> dict[str, str]:
    overlay = repo.with_name(f"overlay-{time.monotonic_ns()}")
    overlay.mkdir()
    kernel.make_overlay(repo, base, overlay)
    kernel.sync_tree(base, overlay, work)
    files = (p for p in work.rglob("*") if p.is_file() and p.name != kernel.MANIFEST)
    return {str(p.relative_to(work)): p.read_text() for p in files}


def test_tree_is_base_patches_and_our_folders(tree: tuple[Path, Path, Path]) -> None:
    repo, base, work = tree
    found = sync(repo, base, work)
    assert found == {
        "kernel/main.c": CONTEXT.replace("int two", "int added;\nint two"),
        "kernel/new.c": "int fresh;\n",
        "kernel/other.c": "int other;\n",
        "kernel/remanence/stop/core.c": "int stop;\n",
    }
    assert (base / "kernel" / "main.c").read_text() == CONTEXT  # linked, and yet untouched


def test_second_sync_touches_only_what_differs(tree: tuple[Path, Path, Path]) -> None:
    repo, base, work = tree
    sync(repo, base, work)
    stamp = 1_000_000_000
    for file in work.rglob("*.c"):
        os.utime(file, (stamp, stamp))
    (repo / "kernel" / "stop" / "core.c").write_text("int changed;\n")
    sync(repo, base, work)
    touched = {p.name for p in work.rglob("*.c") if p.stat().st_mtime != stamp}
    assert touched == {"core.c"}


def test_a_removed_patch_restores_the_base_with_a_new_time(tree: tuple[Path, Path, Path]) -> None:
    repo, base, work = tree
    os.utime(base / "kernel" / "main.c", (1, 1))
    sync(repo, base, work)
    (repo / "kernel" / "patches" / "0001-add.patch").unlink()
    found = sync(repo, base, work)
    assert found["kernel/main.c"] == CONTEXT
    assert "kernel/new.c" not in found
    assert (work / "kernel" / "main.c").stat().st_mtime > 1  # or make keeps the stale object


def test_patch_that_does_not_apply_is_named(tree: tuple[Path, Path, Path]) -> None:
    repo, base, work = tree
    (base / "kernel" / "main.c").unlink()
    (base / "kernel" / "main.c").write_text("something else\n")
    with pytest.raises(RemError, match=r"0001-add\.patch does not apply to base"):
        sync(repo, base, work)


def test_bad_line_of_tree_table_is_named(tree: tuple[Path, Path, Path]) -> None:
    repo, base, work = tree
    for line in ("one-word", "kernel/stop /absolute", "kernel/stop ../outside"):
        (repo / "kernel" / "tree.txt").write_text(f"# first\n{line}\n")
        with pytest.raises(RemError, match=r"kernel/tree\.txt:2: .*"):
            sync(repo, base, work)


def test_last_fragment_of_a_configuration_counts() -> None:
    base = '# comment\nCONFIG_A=y\nCONFIG_NAME="base"\n# CONFIG_B is not set\n'
    merged = kernel_config.merge_fragments([base, '# why\nCONFIG_B=y\nCONFIG_NAME="top"\n'])
    assert merged == '# comment\nCONFIG_A=y\n# why\nCONFIG_B=y\nCONFIG_NAME="top"\n'
    assert kernel_config.merge_fragments([base]) == base


@pytest.mark.parametrize("variant", [None, "debug", "server", "debian"])
def test_configuration_names_its_variant(variant: str | None) -> None:
    """By which lab/setup/layout.py finds the headers of a kernel."""
    assert layout._variant(kernel._asked(variant)[0]) == variant


def test_planted_bugs_need_no_configuration() -> None:
    assert kernel._asked(kernel.MUTANTS) == kernel._asked(None)


def test_config_line_that_was_not_granted_is_found() -> None:
    asked = "# remark\nCONFIG_A=y\nCONFIG_B=8\n# CONFIG_C is not set\nCONFIG_D=y # why\n"
    assert kernel_config.config_lacks(asked, "CONFIG_A=y\nCONFIG_B=9\n") == [
        "CONFIG_B=8",
        "# CONFIG_C is not set",
        "CONFIG_D=y # why",  # Kconfig knows no remark after a value
    ]
    assert kernel_config.config_lacks("CONFIG_A=y\n", "CONFIG_A=y\n") == []


@pytest.mark.parametrize(
    ("os_release", "names"),
    [
        ('ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04 LTS"\n', "Ubuntu 24.04 LTS"),
        ('ID=debian\nVERSION_ID="11"\nPRETTY_NAME="Debian GNU/Linux 11"\n', "Debian GNU/Linux 11"),
        ('ID=debian\nPRETTY_NAME="Debian GNU/Linux sid"\n', "Debian GNU/Linux sid"),
        ("", "an unknown system"),
    ],
)
def test_wrong_system_is_one_line_that_names_it(os_release: str, names: str) -> None:
    with pytest.raises(InfraError) as error:
        host.debian(os_release)
    assert names in error.value.message
    assert "\n" not in error.value.message
    assert error.value.exit_code == 4


def test_debian_is_known() -> None:
    text = 'ID=debian\nVERSION_ID="13"\nVERSION_CODENAME=trixie\nPRETTY_NAME="Debian 13"\n'
    assert host.debian(text) == host.Debian(13, "trixie")


def test_lack_of_disk_space_is_reported_before_work_begins(tmp_path: Path) -> None:
    host.need_disk(tmp_path / "not" / "yet", 1, "a test")
    with pytest.raises(InfraError, match=r"no disk space for a test: \d+ MiB needed, \d+ MiB free"):
        host.need_disk(tmp_path / "not" / "yet", 1 << 40, "a test")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("E: Failed to fetch http://mirror.invalid/x  Temporary failure resolving", "no network"),
        ("pip: Connection refused", "no network"),
        ("tar: write error: No space left on device", "no disk space"),
        ("main.c:3: error: expected ';'", "main.c:3"),
    ],
)
def test_installers_output_becomes_one_line(output: str, expected: str) -> None:
    message = host.explain(InfraError(output), "testing").message
    assert message.startswith(expected)
    assert "\n" not in message


def test_newest_compares_as_dpkg_does() -> None:
    versions = ["6.12.95-1~bpo12+1", "6.12.117-1~deb12u1", "6.12.9-1", "6.12.117-1~bpo12+1"]
    assert apt.newest(versions) == "6.12.117-1~deb12u1"
    assert apt.newest([]) == ""


@pytest.mark.parametrize(
    ("version", "serves"),
    [
        ("rustc 1.84.1 (e71f9a9a9 2025-01-27)", False),
        ("rustc 1.85.0 (4d91de4e4 2025-02-17)", True),
        ("1.96.0+dfsg1-1~deb12u2", True),
        ("rustc 2.0.0", True),
        ("", False),
    ],
)
def test_rust_bound_is_tight(version: str, serves: bool) -> None:
    assert rust.is_new_enough(version) is serves


def test_a_crate_is_made_of_itself_and_of_the_crates_it_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests of a crate are no part of its product; a crate that nothing names is not either."""
    manifests = {
        ".": '[workspace]\nmembers = ["a", "b/c", "d", "e"]\n',
        "a": '[package]\nname = "one"\n[dependencies]\ntwo = { path = "../b/c" }\nserde = "1"\n',
        "b/c": '[package]\nname = "two"\n[build-dependencies]\nthree = { path = "../../d" }\n',
        "d": '[package]\nname = "three"\n[dependencies]\n',
        "e": '[package]\nname = "four"\n[dependencies]\none = { path = "../a" }\n',
    }
    for folder, text in manifests.items():
        for name in ("src", "tests"):
            (tmp_path / folder / name).mkdir(parents=True)
        (tmp_path / folder / "Cargo.toml").write_text(text)
    monkeypatch.setattr(cargo, "repo_dir", lambda: tmp_path)
    folders = ("a", "b/c", "d")
    expected = {f"{folder}/{name}" for folder in folders for name in ("src", "Cargo.toml")}
    assert set(cargo.crate_sources("one")) == expected


def test_every_crate_of_a_product_is_in_the_workspace() -> None:
    products = cargo.CargoPart.__subclasses__()
    assert products
    for product in products:
        assert f"{cargo.crate_sources(product.crate)[0]}", product
