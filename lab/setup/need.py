# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The only entry to products of set-up: `need(Kernel(), Loader())` returns them, made if missing.

A product is a Part: a frozen dataclass whose fields are the parameters of its recipe. need() first
installs the Debian packages of all parts together, then makes missing products, so no command can
forget the packages of a product. A part's recipe gets a Site, which only this module creates and
which is required for access to the cache.

Parts of different lanes are made in parallel, those of one lane one after the other. If one fails
or the user interrupts, processes of the others are ended, and finished products stay.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, overload

from lab import run
from lab.setup import cache, tools
from lab.setup.install import install
from lab.setup.packages import BASE, Group

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")

BEGAN_ENV = "REM_BEGAN_S"  # when the entry script began, seconds since the epoch
_loaded_s = time.time()
_ready_s = _loaded_s


class Site:
    """The place where parts are made: the cache, and the parts made so far."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._groups = frozenset(groups)
        self._lock = threading.Lock()
        self._made: dict[Part[Any], _Made] = {}

    def __getitem__(self, part: Part[T]) -> T:
        """Return the part, and make it if necessary; its packages must be installed."""
        assert self._groups.issuperset(part.needs_groups()), f"{part}: packages of its maker"
        with self._lock:
            entry = self._made.setdefault(part, _Made())
        with entry.lock:
            if entry.error is not None:
                raise entry.error
            if not entry.done:
                try:
                    entry.value = part.make(self)
                    entry.done = True
                except BaseException as error:
                    entry.error = error
                    raise
            value: T = entry.value
            return value

    def product(
        self, kind: str, key: str, make: Callable[[Path], None], lock_name: str | None = None
    ) -> Path:
        """Return the folder of a product; `make` fills it if it is not in the cache.

        *lock_name*: as of cache.product().
        """
        return cache.product(kind, key, make, lock_name)


class _Made:
    """The result of making a part."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None


class Part(ABC, Generic[T]):
    """Something that set-up makes. Subclasses are frozen dataclasses."""

    groups: ClassVar[tuple[Group, ...]] = ()  # packages for making or using it
    lane: ClassVar[str] = "quick"

    def needs_groups(self) -> tuple[Group, ...]:
        """Return packages to install before any part is made."""
        return self.groups

    def requires(self) -> tuple[Part[Any], ...]:
        """Return parts to make first. make() gets those for a missing product from the site."""
        return ()

    @abstractmethod
    def make(self, site: Site) -> T:
        """Return the product, from the cache if possible."""


@dataclass(frozen=True)
class Packages(Part[None]):
    """Debian packages alone, for commands that run their programs and need no product."""

    names: tuple[Group, ...]

    def needs_groups(self) -> tuple[Group, ...]:
        return self.names

    def make(self, site: Site) -> None:
        """Do nothing: need() has installed them."""


@overload
def need(a: Part[A], /) -> A: ...
@overload
def need(a: Part[A], b: Part[B], /) -> tuple[A, B]: ...
@overload
def need(a: Part[A], b: Part[B], c: Part[C], /) -> tuple[A, B, C]: ...
@overload
def need(a: Part[A], b: Part[B], c: Part[C], d: Part[D], /) -> tuple[A, B, C, D]: ...
@overload
def need(a: Part[A], b: Part[B], c: Part[C], d: Part[D], e: Part[E], /) -> tuple[A, B, C, D, E]: ...
def need(*parts: Part[Any]) -> Any:
    """Return the products of these parts: one value, or a tuple in their order."""
    made = need_all(parts)
    return made[parts[0]] if len(parts) == 1 else tuple(made[part] for part in parts)


def need_all(parts: Iterable[Part[Any]]) -> Site:
    """The same for any number of parts: products by part."""
    global _ready_s
    order = _in_order(parts)
    groups = dict.fromkeys([BASE, *(group for part in order for group in part.needs_groups())])
    install(tuple(groups))
    tools.use(tuple(groups))
    site = Site(groups)
    try:
        _make_all(order, site)
    finally:
        _ready_s = time.time()
    return site


def ready_after_s() -> float:
    """Return seconds from the start of the command until all its products were ready."""
    began = os.environ.get(BEGAN_ENV, "")
    return _ready_s - (float(began) if began.isdecimal() else _loaded_s)


def _in_order(parts: Iterable[Part[Any]]) -> list[Part[Any]]:
    """Return these parts and their requirements, each once and after its own requirements."""
    order: dict[Part[Any], None] = {}

    def visit(part: Part[Any], above: tuple[Part[Any], ...]) -> None:
        assert part not in above, f"{part} requires itself"
        for required in part.requires():
            visit(required, (*above, part))
        order.setdefault(part)

    for part in parts:
        visit(part, ())
    return list(order)


def _make_all(order: list[Part[Any]], site: Site) -> None:
    lanes: dict[str, list[Part[Any]]] = {}
    for part in order:
        lanes.setdefault(part.lane, []).append(part)
    if len(lanes) == 1:
        for part in order:
            site[part]
        return
    children = run.Children()

    def make_lane(lane: list[Part[Any]]) -> None:
        with run.owned_by(children):
            for part in lane:
                for required in part.requires():
                    site[required]
                site[part]

    with ThreadPoolExecutor(len(lanes), "rem-setup") as pool:
        try:
            running = [pool.submit(make_lane, lane) for lane in lanes.values()]
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
            failed = [error for future in done if (error := future.exception()) is not None]
            if failed:
                raise failed[0]
        except BaseException:
            children.end()  # the next call repeats what they had begun
            raise
