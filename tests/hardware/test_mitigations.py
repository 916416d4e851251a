# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a kernel with the mitigations of CPU vulnerabilities that Debian compiles, and with page
table isolation, loses nothing over cuts under load, on both paths.

Method: as tests/test_claims_cuts.py, on the server's kernel with mitigations=auto; the emulated CPU
is one that Meltdown concerns. What the kernel reports of each vulnerability is the same after all
cuts. The control: without that word of the command line the same kernel isolates nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.machine import Machine
from lab.machine.config import StopModeName
from lab.setup.products import Kernel, need
from tests.support.claims import booted
from tests.test_claims_cuts import play

CPUS = 2
CUTS = 5
VULNERABILITIES = "/sys/devices/system/cpu/vulnerabilities"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@contextmanager
def server(purpose: str, stop: StopModeName, words: str) -> Iterator[Machine]:
    kernel = need(Kernel("server")).bz_image
    with booted(purpose, CPUS, stop, kernel, cmdline_extra=words) as machine:
        yield machine


def mitigations(machine: Machine) -> dict[str, str]:
    """What the kernel does against each vulnerability."""
    shown = machine.run_in_guest(f"cd {VULNERABILITIES} && grep . *").stdout
    return dict(line.split(":", 1) for line in shown.splitlines())


@pytest.mark.parametrize("stop", ["fast", "dpm"])
def test_cuts_with_mitigations_lose_nothing(stop: StopModeName) -> None:
    with server(f"mitigated-{stop}", stop, "mitigations=auto") as machine:
        before = mitigations(machine)
        assert before["meltdown"] == "Mitigation: PTI"
        assert "Retpolines" in before["spectre_v2"]
        play(machine, CUTS)
        assert mitigations(machine) == before


def test_without_that_word_nothing_is_mitigated() -> None:
    with server("unmitigated", "fast", "") as machine:
        assert mitigations(machine)["meltdown"] == "Vulnerable"
