# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which file of the repository a source file includes, imports, depends on or builds from.

C, assembly   #include; names are looked up beside the file, then among all headers, and
              <...> by kernel/tree.txt, which places headers in the kernel tree
Rust          include_str!, include_bytes!, #[path], and `../` paths in strings
Cargo.toml    path dependencies
Makefiles     words with `../`
tree.txt      the source of each line
Python        imports of this repository's packages
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

C_SUFFIXES = (".c", ".h", ".S")
KERNEL_TREE = "kernel/tree.txt"
_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
_RUST_PATH = re.compile(r'(include_(?:str|bytes)!\(\s*|#\[path\s*=\s*)?"((?:\.\.?/)[^"\s{}]*)"')
_CARGO_PATH = re.compile(r'\bpath\s*=\s*"([^"]+)"')
_UPWARDS = re.compile(r"(?:\.\./)+[\w./-]*")


@dataclass(frozen=True)
class Reference:
    """From a line of one file to another file or folder of the repository."""

    file: str
    line: int
    target: str


@dataclass
class Project:
    """All tracked names, and what is needed to look names up."""

    names: frozenset[str]
    tree: dict[str, str] = field(default_factory=dict)  # place in the kernel tree: source
    _headers: dict[str, list[str]] = field(default_factory=dict)
    _folders: frozenset[str] = frozenset()

    @staticmethod
    def of(texts: dict[str, str]) -> Project:
        names = frozenset(texts)
        lines = texts.get(KERNEL_TREE, "").splitlines()
        pairs = [line.split() for line in lines if line.strip() and not line.startswith("#")]
        headers: dict[str, list[str]] = {}
        for name in sorted(names):
            if name.endswith(".h"):
                headers.setdefault(posixpath.basename(name), []).append(name)
        folders = {posixpath.dirname(name) for name in names}
        for folder in list(folders):
            while folder := posixpath.dirname(folder):
                folders.add(folder)
        return Project(names, {to: source for source, to in pairs}, headers, frozenset(folders))

    def has(self, path: str) -> bool:
        return path in self.names or path in self._folders

    def headers(self, path: str) -> list[str]:
        """All headers whose path ends in *path*."""
        found = self._headers.get(posixpath.basename(path), [])
        return [name for name in found if name == path or name.endswith("/" + path)]

    def placed(self, include: str) -> str | None:
        """The source of a header that the kernel tree has as <include>."""
        return next((s for to, s in self.tree.items() if to.endswith("/" + include)), None)


def references(project: Project, name: str, text: str) -> Iterator[Reference]:
    """All references of one file. What is not of this repository is left out."""
    base = posixpath.basename(name)
    if name.endswith(C_SUFFIXES):
        found = _of_c(project, name, text)
    elif name.endswith(".rs"):
        found = _of_rust(project, name, text)
    elif base == "Cargo.toml":
        found = _of_lines(project, name, text, _CARGO_PATH)
    elif base in {"Makefile", "Kbuild"} or name.endswith(".mk"):
        found = _of_lines(project, name, text, _UPWARDS)
    elif name == KERNEL_TREE:
        found = _of_tree(project, name, text)
    elif name.endswith(".py"):
        found = _of_python(project, name, text)
    else:
        return
    yield from found


def _joined(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _of_c(project: Project, name: str, text: str) -> Iterator[Reference]:
    folder = posixpath.dirname(name)
    for number, line in enumerate(text.splitlines(), 1):
        match = _INCLUDE.match(line)
        if match is None:
            continue
        if match[1] == "<":
            target = project.placed(match[2])
        else:
            beside = _joined(name, match[2])
            candidates = [beside] if beside in project.names else project.headers(match[2])
            # Found by -I: a header of the same room first, as its path is the most alike.
            target = max(candidates, key=lambda c: len(_common(c, folder)), default=None)
        if target is not None:
            yield Reference(name, number, target)


def _common(one: str, other: str) -> list[str]:
    pairs = zip(one.split("/"), other.split("/"), strict=False)
    shared = []
    for left, right in pairs:
        if left != right:
            break
        shared.append(left)
    return shared


def _of_rust(project: Project, name: str, text: str) -> Iterator[Reference]:
    """A path in a macro is relative to the file, any other to the file or to its crate."""
    crate = posixpath.dirname(name)
    while crate and f"{crate}/Cargo.toml" not in project.names:
        crate = posixpath.dirname(crate)
    for number, line in enumerate(text.splitlines(), 1):
        for match in _RUST_PATH.finditer(line):
            bases = [posixpath.dirname(name)] if match[1] else [posixpath.dirname(name), crate]
            for base in bases:
                target = _existing(project, base, match[2])
                if target is not None:
                    yield Reference(name, number, target)
                    break


def _of_lines(
    project: Project, name: str, text: str, pattern: re.Pattern[str]
) -> Iterator[Reference]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line.partition("#")[0]):
            path = match[match.lastindex or 0]
            target = _existing(project, posixpath.dirname(name), path)
            if target is not None:
                yield Reference(name, number, target)


def _existing(project: Project, folder: str, path: str) -> str | None:
    """The longest beginning of a path from *folder* that is in the repository.

    The rest may be a pattern; what is left must be more than the way upwards.
    """
    upwards = re.match(r"(?:\.\.?/)*", path)
    assert upwards is not None
    climbed = posixpath.normpath(posixpath.join(folder, upwards[0]))
    target = posixpath.normpath(posixpath.join(folder, path))
    if project.has(target):
        return target
    while len(target) > len(climbed.strip(".")) and not target.startswith(".."):
        if project.has(target):
            return target
        target = posixpath.dirname(target)
    return None


def _of_tree(project: Project, name: str, text: str) -> Iterator[Reference]:
    for number, line in enumerate(text.splitlines(), 1):
        word = line.split()[:1]
        if word and project.has(word[0]):
            yield Reference(name, number, word[0])


def _of_python(project: Project, name: str, text: str) -> Iterator[Reference]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for module in modules:
            target = _module(project, module)
            if target is not None and target != name:
                yield Reference(name, node.lineno, target)


def _module(project: Project, module: str) -> str | None:
    """The file of a module, or of the longest package in the name that has one."""
    words = module.split(".")
    while words:
        path = "/".join(words)
        for candidate in (f"{path}.py", f"{path}/__init__.py"):
            if candidate in project.names:
                return candidate
        words.pop()
    return None
