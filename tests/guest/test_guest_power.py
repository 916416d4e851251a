# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what an administrator connects to a machine works with real programs: a UPS that is nearly
empty, by NUT, is a planned Stop, each time; the node exporter shows the metrics of remctl.

Method: NUT as Debian has it, with its own dummy of a UPS, which is empty until the machine has
resumed. The negative proof: without the last step of the script NUT still holds that the machine
goes down, and the next time it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.errors import HangError
from lab.machine import Machine, MachineState
from lab.paths import repo_dir
from lab.record.block import decode, read_block
from lab.setup.package_tools import PackageTools
from lab.setup.products import Root, need
from lab.testbed.machines import make_config
from lab.testbed.waiting import wait_until
from tests.support import ups
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

PACKAGES = ("nut-server", "nut-client", "prometheus-node-exporter")
LIMIT_S = 120.0
AGAIN_S = 15.0  # of a NUT that has begun within a second
DIST = repo_dir() / "remctl" / "dist"
START = "service nut-server start; service nut-client start"
COUNTER = (
    "n=0; while :; do n=$((n + 1)); echo $n >/run/count.new; mv /run/count.new /run/count;"
    " sleep 0.1; done"
)
NODE_EXPORTER = (
    "prometheus-node-exporter --collector.disable-defaults --collector.textfile"
    " --collector.textfile.directory=/run/metrics --web.listen-address=127.0.0.1:9100"
)
FETCH = "/opt/rem/bin/busybox wget -qO- http://127.0.0.1:9100/metrics"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    root = need(Root.having(*PACKAGES))
    config = replace(make_config(machine_name("power")), root=root)
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        made.guest.wait_ssh(LIMIT_S)
        made.guest.put(need(PackageTools()) / "remctl", "/usr/sbin/remctl")
        sh(made, "chmod 755 /usr/sbin/remctl; mkdir -p /usr/lib/remanence")
        yield made


def sh(machine: Machine, command: str) -> str:
    return machine.run_in_guest(command, limit_s=LIMIT_S).stdout.strip()


def start(machine: Machine, command: str) -> str:
    """Goes on beside what follows; its process."""
    return sh(machine, f"setsid sh -c '{command}' >/dev/null 2>&1 </dev/null & echo $!")


def ups_status(machine: Machine) -> str:
    return machine.run_in_guest(ups.STATUS, check=False).stdout


def use_script(machine: Machine, text: str) -> None:
    """NUT begins with this script for an empty UPS."""
    sh(machine, "service nut-client stop; service nut-server stop; pkill -x dummy-ups; true")
    sh(machine, f"cat >{ups.SCRIPT} <<'END'\n{text}END\nchmod 755 {ups.SCRIPT}")
    sh(machine, f"{ups.CONFIGURE}{START}")
    ups.wait_settled(machine)


def mains_fail(machine: Machine) -> None:
    """The machine goes off by itself, and is entered again."""
    sh(machine, f"cat >/run/mains <<'END'\n{ups.MAINS}END")
    start(machine, "sh /run/mains")
    assert machine.wait_off(LIMIT_S) is MachineState.STOPPED
    slot = decode(read_block(machine.files.nvram(machine.config))).newest
    assert slot is not None and slot.body is not None
    assert (slot.state, slot.body.stop_reason) == ("ready", "PLANNED")
    machine.resume()
    machine.wait_resumed(LIMIT_S)


def test_an_empty_ups_is_a_stop_each_time(machine: Machine) -> None:
    use_script(machine, (DIST / "ups-low").read_text(encoding="utf-8"))
    pid = start(machine, COUNTER)
    before = int(sh(machine, f"cat {ups.RESUMES}"))
    for number in (1, 2):
        count = int(sh(machine, "cat /run/count"))
        mains_fail(machine)
        ups.wait_settled(machine)
        assert int(sh(machine, f"cat {ups.RESUMES}")) == before + number
        assert int(sh(machine, f"kill -0 {pid} && cat /run/count")) >= count
    assert sh(machine, "test -e /run/nut/killpower && echo kept || echo gone") == "gone"


def test_without_its_last_step_nut_stays_down(machine: Machine) -> None:
    """The negative proof, and why the script has that step."""
    text = (DIST / "ups-low").read_text(encoding="utf-8")
    without = text.replace("remctl stop || down\nbegin_again", "remctl stop || down\ntrue")
    assert without != text
    use_script(machine, without)
    mains_fail(machine)
    wait_until(lambda: "FSD" in ups_status(machine), "the server of the UPS answers", LIMIT_S)
    with pytest.raises(HangError):
        ups.wait_settled(machine, AGAIN_S)


def test_the_node_exporter_shows_what_remctl_writes(machine: Machine) -> None:
    sh(machine, "mkdir -p /run/metrics; remctl metrics --out /run/metrics/remanence.prom")
    start(machine, NODE_EXPORTER)
    wait_until(lambda: machine.run_in_guest(FETCH, check=False).ok, "the exporter answers", LIMIT_S)
    shown = sh(machine, FETCH).splitlines()
    resumes = sh(machine, f"cat {ups.RESUMES}")
    for line in ("remanence_armed 1", f"remanence_resumes_total {resumes}"):
        assert line in shown
    assert "node_textfile_scrape_error 0" in shown
    assert any(line.startswith('remanence_disk{disk="vda"') for line in shown)


def test_a_spoilt_file_is_an_error_of_the_exporter(machine: Machine) -> None:
    """The negative proof: the exporter does check what it reads."""
    sh(machine, "echo 'remanence_armed one' >>/run/metrics/remanence.prom")
    assert "node_textfile_scrape_error 1" in sh(machine, FETCH).splitlines()
