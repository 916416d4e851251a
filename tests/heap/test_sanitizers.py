# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The heap's own tests under Miri and the sanitizers: long, so soak.

They need a suitable toolchain: Miri and ThreadSanitizer need rustup's nightly with the components
`miri` and `rust-src`, AddressSanitizer a rustc with its runtime, which rustup's have and
distributions' may not. Where it is missing, a test fails and names what to install. Rust has no
UBSan: Miri checks the same; the C side has it in test_c_library.py.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.run import Done, host_path, run
from lab.setup.cargo import cargo_env

TARGET = "x86_64-unknown-linux-gnu"
NIGHTLY = os.environ.get("REM_NIGHTLY", "+nightly")
COMPONENTS = ("miri", "rust-src")
HEAP = repo_dir() / "heap"

PAST_THE_END = """
    let words = vec![1_u64; 4];
    // SAFETY: none, this is the bug.
    assert_ne!(std::hint::black_box(unsafe { *words.as_ptr().wrapping_add(4) }), 1);
"""
RACE = """
    let word = Box::leak(Box::new(0_u64)) as *mut u64 as usize;
    // SAFETY: none, this is the bug.
    let add = move || (0..1000).for_each(|_| unsafe { *(word as *mut u64) += 1 });
    let other = std::thread::spawn(add);
    add();
    other.join().unwrap();
"""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(6 * 3600)]


def rustups(name: str) -> Path:
    """A program of rustup's; `rem` hides it, as its own builds use one compiler."""
    rustup = shutil.which("rustup", path=host_path())
    return Path(rustup).with_name(name) if rustup else Path(name)


def need_nightly() -> None:
    """Require rustup's nightly with the components of Miri and ThreadSanitizer."""
    toolchain = NIGHTLY.removeprefix("+")
    parts = "".join(f" --component {name}" for name in COMPONENTS)
    install = f"rustup toolchain install {toolchain} --profile minimal{parts}"
    if not rustups("rustup").is_file():
        pytest.fail(f"no rustup in PATH: install it, then `{install}`")
    listed = [rustups("rustup"), "component", "list", "--installed", "--toolchain", toolchain]
    installed = run(listed, check=False).stdout.split()
    missing = [name for name in COMPONENTS if not any(one.startswith(name) for one in installed)]
    if missing:
        pytest.fail(f"the toolchain {toolchain} has no {' and no '.join(missing)}: `{install}`")


def need_runtime(name: str) -> None:
    """Require the sanitizer's runtime, which not every compiler has."""
    sysroot = run([rustups("rustc"), "--print", "sysroot"], check=False).stdout.strip()
    libraries = Path(sysroot) / "lib" / "rustlib" / TARGET / "lib"
    if not list(libraries.glob(f"librustc*_rt.{name}.a")):
        pytest.fail(
            f"this rustc has no runtime for {name}: rustup's has it, "
            "`rustup toolchain install stable --profile minimal`"
        )


def cargo(argv: list[str], folder: str, cwd: Path | None = None, **env: str) -> Done:
    target = os.path.join(cargo_env()["CARGO_TARGET_DIR"], folder)
    # Proxies of rustup's find rustc and each other in PATH.
    path = f"{rustups('cargo').parent}:{host_path()}"
    settings = cargo_env() | env | {"CARGO_TARGET_DIR": target, "PATH": path}
    return run([rustups("cargo"), *argv], cwd=cwd or repo_dir(), env=settings, check=False)


def passes(done: Done) -> None:
    assert done.ok, done.stdout[-2000:] + done.stderr[-4000:]
    assert re.search(r"^test result: ok\. [1-9]", done.stdout, re.MULTILINE)


def alone(folder: Path, test: Path) -> Path:
    """Make a package of that one test. In the library's own package cargo would also build what
    other tests need with the sanitizer's flags: sixty packages instead of four.
    """
    (folder / "src").mkdir()
    (folder / "src" / "lib.rs").touch()
    (folder / "tests").mkdir()
    shutil.copy(test, folder / "tests")
    shutil.copy(repo_dir() / "Cargo.lock", folder)
    (folder / "Cargo.toml").write_text(
        f"""[package]
name = "sanitized-{test.stem}"
edition = "2024"
[workspace]
[dependencies]
nvheap = {{ path = {str(HEAP)!r}, features = ["testing"] }}
[profile.dev.package.nvheap]
opt-level = 2
""",
        encoding="utf-8",
    )
    return folder


def under_miri(package: Path, name: str) -> Done:
    """Run under Miri. Pointers are made of an address and an offset: no strict provenance."""
    need_nightly()
    # One side accesses a slab's map as bytes, the other as words: Miri's weak memory panics there.
    flags = "-Zmiri-disable-isolation -Zmiri-permissive-provenance"
    flags += " -Zmiri-disable-weak-memory-emulation"
    argv = [NIGHTLY, "miri", "test", "--test", name]
    return cargo(argv, "miri", package, MIRIFLAGS=flags)


def under_tsan(package: Path, name: str) -> Done:
    """Run under TSan, with a standard library built with it: else its ordering is not seen."""
    need_nightly()
    argv = [NIGHTLY, "test", "-Zbuild-std", "--target", TARGET, "--test", name]
    return cargo(argv, "tsan", package, RUSTFLAGS="-Zsanitizer=thread")


def under_asan(package: Path | None, name: str) -> Done:
    need_runtime("asan")
    which = [] if package else ["--locked", "-p", "nvheap"]
    argv = ["test", *which, "--target", TARGET, "--test", name]
    flags = {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": "-Zsanitizer=address"}
    return cargo(argv, "asan", package, **flags)


def test_miri_finds_nothing_in_all_policies_and_structures(tmp_path: Path) -> None:
    passes(under_miri(alone(tmp_path, HEAP / "tests" / "miri.rs"), "miri"))


@pytest.mark.parametrize("name", ["structures", "tool", "miri", "fof"])
def test_address_sanitizer_finds_nothing(name: str) -> None:
    passes(under_asan(None, name))


def test_thread_sanitizer_finds_nothing(tmp_path: Path) -> None:
    """With real threads."""
    passes(under_tsan(alone(tmp_path, HEAP / "tests" / "races.rs"), "races"))


@pytest.mark.parametrize(
    ("tool", "bug", "report"),
    [
        (under_miri, PAST_THE_END, "Undefined Behavior"),
        (under_asan, PAST_THE_END, "heap-buffer-overflow"),
        (under_tsan, RACE, "data race"),
    ],
)
def test_each_tool_finds_its_planted_bug(
    tmp_path: Path, tool: Callable[[Path, str], Done], bug: str, report: str
) -> None:
    planted = tmp_path / "planted.rs"
    planted.write_text(f"#[test]\nfn planted() {{\n{bug}}}\n", encoding="utf-8")
    (tmp_path / "package").mkdir()
    done = tool(alone(tmp_path / "package", planted), "planted")
    assert not done.ok
    assert report in done.stdout + done.stderr
