# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lab/setup/need.py is the only way to a product, so no command can forget a product's packages.

Method: every Python file of the project is parsed. Outside lab/setup a file may import parts, the
door and plain values from there, and no function that makes something. Inside it only the door has
the cache and makes sites, without which a part makes nothing.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.setup.need import Part, need, need_all, ready_after_s
from lab.tidy.files import project_files

DOOR = "lab/setup/need.py"
DOOR_FUNCTIONS = (need, need_all, ready_after_s)
# Functions of lab/setup that neither make nor install anything.
HARMLESS = {
    "lab.setup.cache.products",
    "lab.setup.cache.recorded_products",
    "lab.setup.cargo.cargo_env",
    "lab.setup.cargo_tests.cargo_test_words",
    "lab.setup.debs.check_staged",
    "lab.setup.debs.write_index",
    "lab.setup.inputs.Inputs",
    "lab.setup.host.debian",
    "lab.setup.host.tool_version",
    "lab.setup.keep.write_dkms",
    "lab.setup.kernel.base_dir",
    "lab.setup.kernel.kernel_key",
    "lab.setup.kernel.kernel_mutants",
    "lab.setup.kernel.kernel_source_version",
    "lab.setup.kernel.make_env",
    "lab.setup.kernel.mutants_of",
    "lab.setup.kernel_plain.config_difference",
    "lab.setup.kernel_plain.own_symbols",
    "lab.setup.kernel_plain.without_symbols",
    "lab.setup.loader.loader_key",
    "lab.setup.loader.loader_mutants",
    "lab.setup.media_peer.media_mutants",
    "lab.setup.modules.build_modules",  # in a folder of the caller's
    "lab.setup.need.Site",  # a part has one in its signature; only the door makes them
    "lab.setup.keep.series",
    "lab.setup.off2f.series",
    "lab.setup.off2f.sources",
    "lab.setup.owner.give_to_owner",
    "lab.setup.pm.series",
    "lab.setup.pm.sources",
    "lab.setup.psm_bench.rtl_mutants",
    "lab.setup.sources.apt_network_options",
    "lab.setup.sources.read_machine",
    "lab.setup.sources.release_only",
    "lab.setup.status.rows",
    "lab.setup.stock_headers.stock_version",
    "lab.setup.tools.use",
}
# It applies patches to copies and makes no product.
HARMLESS_MODULE = "lab.setup.patch_series"
# Modules that may be imported as a whole: what they name is what others may import one by one.
MODULES = {"lab.setup.newc", "lab.setup.products"}


def findings(name: str, source: str) -> list[str]:
    """Ways round the door in one file."""
    tree = ast.parse(source)
    if name.startswith("tests/unit/test_setup_") or name == DOOR:
        return []
    inside = name.startswith("lab/setup/")
    found = [] if inside else list(_imports(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) == "Site":
            found.append("makes a Site")
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "cache.product":
            found.append("takes a product from the cache")
    return found


def _called(node: ast.Call) -> str:
    function = node.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("lab.setup"):
                    yield f"imports the module {alias.name}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lab.setup"):
            for alias in node.names:
                if not _may_import(str(node.module), alias.name):
                    yield f"imports {node.module}.{alias.name}"


def _may_import(module: str, name: str) -> bool:
    if module == HARMLESS_MODULE or f"{module}.{name}" in HARMLESS | MODULES:
        return True
    value = getattr(importlib.import_module(module), name, None)
    if value is None or inspect.ismodule(value):
        return False
    if inspect.isclass(value):
        return issubclass(value, Part | enum.Enum) or dataclasses.is_dataclass(value)
    return not callable(value) or value in DOOR_FUNCTIONS or isinstance(value, Part)


def python_files() -> Iterator[tuple[str, str]]:
    for path in project_files(repo_dir()):
        if path.suffix == ".py":
            yield str(path.relative_to(repo_dir())), path.read_text(encoding="utf-8")


def test_no_file_bypasses_need() -> None:
    wrong = {name: found for name, text in python_files() if (found := findings(name, text))}
    assert wrong == {}


def test_every_command_file_is_checked() -> None:
    names = {name for name, _ in python_files()}
    for path in (repo_dir() / "lab" / "commands").glob("*.py"):
        assert f"lab/commands/{path.name}" in names


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("from lab.setup.kernel import build", "imports lab.setup.kernel.build"),
        ("def f():\n    from lab.setup.apt import apt_get", "imports lab.setup.apt.apt_get"),
        ("from lab.setup import cache", "imports lab.setup.cache"),
        ("import lab.setup.kernel", "imports the module lab.setup.kernel"),
        ("from lab.setup.install import install", "imports lab.setup.install.install"),
        ("Kernel().make(need.Site(()))", "makes a Site"),
        ("cache.product('kernel', 'key', build)", "takes a product from the cache"),
    ],
)
def test_bypass_is_found(source: str, finding: str) -> None:
    assert findings("lab/commands/planted.py", source) == [finding]


def test_what_files_may_import_is_no_finding() -> None:
    source = """
from lab.setup.products import MACHINE, Kernel, KernelProduct, Packages, Part, need, need_all
from lab.setup.packages import BUSYBOX, Group
from lab.setup import products
"""
    assert findings("lab/commands/planted.py", source) == []


def test_harmless_functions_exist() -> None:
    for name in HARMLESS:
        module, _, function = name.rpartition(".")
        assert callable(getattr(importlib.import_module(module), function)), name


def test_only_need_uses_the_cache() -> None:
    inside = [name for name, text in python_files() if "cache.product(" in text]
    assert [name for name in inside if not name.startswith("tests/unit/")] == [DOOR]
    assert Path(repo_dir() / DOOR).exists()
