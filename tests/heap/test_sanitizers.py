# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The heap's own tests under Miri and the sanitizers: long, so soak.

They need a toolchain that has them: Miri and ThreadSanitizer rustup's nightly with the components
`miri` and `rust-src`, AddressSanitizer any rustc that comes with its runtime. There is no
UBSan for Rust: what it would look for, Miri does; the C side has it in test_c_library.py.
"""

from __future__ import annotations

import os
import re

import pytest

from lab.paths import repo_dir
from lab.run import run
from lab.setup.plugin import cargo_env

TARGET = "x86_64-unknown-linux-gnu"
NIGHTLY = os.environ.get("REM_NIGHTLY", "+nightly")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(6 * 3600)]


def passes(argv: list[str], folder: str, **env: str) -> None:
    target = os.path.join(cargo_env()["CARGO_TARGET_DIR"], folder)
    done = run(
        argv, cwd=repo_dir(), env=cargo_env() | env | {"CARGO_TARGET_DIR": target}, check=False
    )
    assert done.ok, done.stdout[-2000:] + done.stderr[-4000:]
    assert re.search(r"^test result: ok\. [1-9]", done.stdout, re.MULTILINE)


def test_miri_follows_all_policies_and_structures() -> None:
    """Pointers come from offsets and the mapping's address: provenance is not strict."""
    # A slab's map is bytes to one and words to the other: Miri's weak memory ends in a panic there.
    flags = "-Zmiri-disable-isolation -Zmiri-permissive-provenance"
    flags += " -Zmiri-disable-weak-memory-emulation"
    argv = ["cargo", NIGHTLY, "miri", "test", "--locked", "-p", "nvheap", "--test", "miri"]
    passes(argv, "miri", MIRIFLAGS=flags)


@pytest.mark.parametrize("name", ["structures", "tool", "miri"])
def test_address_sanitizer_has_nothing_to_say(name: str) -> None:
    argv = ["cargo", "test", "--locked", "-p", "nvheap", "--target", TARGET, "--test", name]
    passes(argv, "asan", RUSTC_BOOTSTRAP="1", RUSTFLAGS="-Zsanitizer=address")


def test_thread_sanitizer_has_nothing_to_say() -> None:
    """Real threads. The standard library is built with it: else its own order is not seen."""
    argv = ["cargo", NIGHTLY, "test", "--locked", "-Zbuild-std", "-p", "nvheap"]
    argv += ["--target", TARGET, "--test", "races"]
    passes(argv, "tsan", RUSTFLAGS="-Zsanitizer=thread")
