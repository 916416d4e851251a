# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `rem status` takes from the guest, with files in place of the kernel's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.machine import status
from lab.run import Done, run

BASE: dict[str, Any] = {
    "name": "m", "state": "running", "why": None, "qemu_pid": 0, "boots": 1, "network": None,
    "boot_note": None, "last_cut": None, "directory": "/m",
}  # fmt: skip


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(status, "SYSFS", str(tmp_path))
    return tmp_path


def part(kernel: Path, name: str, state: str, counts: str) -> None:
    (kernel / name).mkdir()
    (kernel / name / "state").write_text(state)
    (kernel / name / "counts").write_text(counts)


def look() -> dict[str, str] | None:
    def in_guest(script: str, check: bool, limit_s: float) -> Done:
        return run(["sh", "-c", script], check=check, timeout_s=limit_s)

    machine: Any = SimpleNamespace(guest=SimpleNamespace(run=in_guest))
    return status.guest_status(machine)


def test_parts_are_seen_with_their_counts(kernel: Path) -> None:
    (kernel / "status").write_text("armed\n")
    part(kernel, "dram", "on\n", "frames 512\nused 40\n")
    part(kernel, "persist", "off: remanence.persist= was not given\n", "pages 0\n")
    found = look()
    assert found == {
        "status": "armed",
        "persist": "off: remanence.persist= was not given\npages 0",
        "dram": "on\nframes 512\nused 40",
    }
    lines = status.status_lines(BASE | {"guest": found})
    assert "dram       on; frames 512, used 40" in lines
    assert "persist    off: remanence.persist= was not given" in lines


def test_health_is_seen_once_something_is_reported(kernel: Path) -> None:
    """A text may have any sign of ASCII."""
    (kernel / "status").write_text("unhealthy: psu: PS2 @lost\n")
    (kernel / "health").write_text("")
    found = look()
    assert found == {"status": "unhealthy: psu: PS2 @lost", "health": ""}
    assert not any(
        line.startswith("health") for line in status.status_lines(BASE | {"guest": found})
    )
    (kernel / "health").write_text("psu bad 3 300 PS2 @lost\nnvdimm ok 3 300\n")
    found = look()
    assert found is not None
    lines = status.status_lines(BASE | {"guest": found})
    assert "status     unhealthy: psu: PS2 @lost" in lines
    assert "health     psu bad 3 300 PS2 @lost\n           nvdimm ok 3 300" in lines


def test_kernel_without_the_parts_is_seen(kernel: Path) -> None:
    (kernel / "status").write_text("armed\n")
    assert look() == {"status": "armed"}


def test_other_kernel_has_nothing_to_say(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "SYSFS", str(kernel / "none"))
    assert look() is None
