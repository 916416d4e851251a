# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What cargo compiles before `rem test` runs test programs and clippy."""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.cargo import Rust, cargo_env, run_cargo
from lab.setup.need import Part, Site
from lab.setup.packages import Group


def cargo_test_words(crates: tuple[str, ...]) -> list[str]:
    """The command that runs the tests of these crates.

    Cargo chooses the features of libraries by all crates that a command names, so the command that
    compiles has to name the same ones.
    """
    return ["cargo", "test", "--locked", *(word for name in crates for word in ("-p", name))]


@dataclass(frozen=True)
class TestCrates(Part[None]):
    """The test programs of some crates."""

    __test__ = False  # pytest: this is no test

    crates: tuple[str, ...]

    groups = (Group.COMPILER, Group.RUST)
    lane = "cargo"

    def requires(self) -> tuple[Part[str]]:
        return (Rust(),)

    def make(self, site: Site) -> None:
        argv = [*cargo_test_words(self.crates), "--no-run"]
        what = f"building the tests of {', '.join(self.crates)}"
        run_cargo(argv, what, log=f"tests-of-{self.crates[0]}", env=cargo_env())


@dataclass(frozen=True)
class CheckedCrates(Part[None]):
    """What clippy needs to know of the workspace's dependencies, which it does not check itself."""

    groups = (Group.COMPILER, Group.RUST)
    lane = "cargo"

    def requires(self) -> tuple[Part[str]]:
        return (Rust(),)

    def make(self, site: Site) -> None:
        argv = ["cargo", "check", "--workspace", "--all-targets", "--locked"]
        run_cargo(argv, "checking crates for clippy", log="checked-crates", env=cargo_env())
