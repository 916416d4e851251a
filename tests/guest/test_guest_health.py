# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a machine whose supplies are watched is not armed while one of them is bad, and stops by
itself when the battery that feeds it is nearly empty. By polkit an administrator may stop it.

Method: `remctl health`, again and again, as its timer runs it, on a machine with the kernel's own
files. It sees a class of power supplies, a BMC's sensors and a Redfish service that the test
writes: QEMU has neither batteries nor supplies. Negative proofs: with the limit at 0 the machine
does not stop; a watcher that was ended leaves no promise; without the rules `remctl status` needs
an administrator, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lab.errors import HangError
from lab.machine import Machine, MachineState
from lab.machine.console import kernel_warnings
from lab.paths import repo_dir
from lab.record.block import decode, read_block
from lab.setup.package_tools import PackageTools
from lab.setup.products import Root, need
from lab.testbed.cycle import cut_and_resume
from lab.testbed.machines import make_config
from lab.testbed.no_stop import consoles
from lab.testbed.waiting import wait_until
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

PACKAGES = ("curl", "ipmitool", "openssl", "pkexec", "polkitd")
LIMIT_S = 120.0
NO_STOP_S = 15.0
PERIOD_S = 5
# Caches are promised, and no Stop takes longer than its bound on the host's time.
WORDS = "remanence.hold_up_us=3000000 remanence.preempt_off_us=2000000"
SYSFS = "/sys/kernel/remanence"
BATTERY = "/run/class/power_supply/BAT0"
# The watcher's own: /sys/class is a folder of the test's, and the BMC answers what a file has.
WATCH = f"""cat >/run/watch <<'END'
mount --bind /run/class /sys/class
mkdir -p /dev/ipmi && mount --bind /run/dev /dev/ipmi
PATH=/run/bin:$PATH
while :; do remctl health --period {PERIOD_S} "$@" >>/run/changes 2>&1; sleep 0.5; done
END
mkdir -p /run/bin /run/dev {BATTERY} && touch /run/dev/0
printf '#!/bin/sh\\ncat /run/sensors\\n' >/run/bin/ipmitool && chmod 755 /run/bin/ipmitool"""
WELL = "PS1 Status | C8h | ok | 10.1 | Presence detected"
LOST = f"{WELL}\nPS2 Status | C9h | ok | 10.2 | Presence detected, Power Supply AC lost"
POLICY = "org.remanence.remctl.policy"
RULES = f"/usr/share/polkit-1/actions/{POLICY}"
# A Redfish service with one supply, whose certificate is its own.
BMC_PORT = 8443
SUPPLIES = "v1/Chassis/1/Power"
SERVE = f"""mkdir -p /run/bmc/{SUPPLIES} /etc/remanence && cd /run/bmc
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bmc \\
    -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem 2>/dev/null
printf 'remanence:secret' >user
echo '{{"Chassis": {{"@odata.id": "/redfish/v1/Chassis"}}}}' >v1/index.json
echo '{{"Members": [{{"@odata.id": "/redfish/v1/Chassis/1"}}]}}' >v1/Chassis/index.json
echo '{{"Power": {{"@odata.id": "/redfish/{SUPPLIES}"}}}}' >v1/Chassis/1/index.json
setsid sh -c 'sleep 9999 | python3 /run/bmc.py /run/bmc {BMC_PORT}' >/dev/null 2>&1 </dev/null &
install -m 600 /dev/null /etc/remanence/redfish.toml
cat >/etc/remanence/redfish.toml <<'END'
url = 'https://127.0.0.1:{BMC_PORT}'
user = 'remanence'
password = 'secret'
ca = '/run/bmc/cert.pem'
END"""


def sh(machine: Machine, command: str) -> str:
    return machine.run_in_guest(command, limit_s=LIMIT_S).stdout.strip()


def status(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sh(machine, "remctl status --json"))
    return found


def wait_state(machine: Machine, state: str) -> None:
    wait_until(lambda: status(machine)["state"] == state, f"the machine is {state}", LIMIT_S)


def set_battery(machine: Machine, state: str, percent: int) -> None:
    words = {"type": "Battery", "status": state, "capacity": percent, "health": "Good"}
    sh(machine, ";".join(f"echo {text} >{BATTERY}/{file}" for file, text in words.items()))


def set_sensors(machine: Machine, text: str) -> None:
    sh(machine, f"cat >/run/sensors.new <<'END'\n{text}\nEND\nmv /run/sensors.new /run/sensors")


def set_supply(machine: Machine, health: str) -> None:
    supply = {"Name": "PSU 1", "Status": {"State": "Enabled", "Health": health}}
    text = json.dumps({"PowerSupplies": [supply]})
    file = f"/run/bmc/{SUPPLIES}/index.json"
    sh(machine, f"echo '{text}' >{file}.new; mv {file}.new {file}")


@pytest.fixture(scope="module")
def booted() -> Iterator[Machine]:
    root = need(Root.having(*PACKAGES))
    config = replace(make_config(machine_name("health")), root=root, cmdline_extra=WORDS)
    with Machine.create(config, destroy_on_exit=True) as made:
        made.boot()
        made.guest.wait_ssh(LIMIT_S)
        made.guest.put(need(PackageTools()) / "remctl", "/usr/sbin/remctl")
        sh(made, f"chmod 755 /usr/sbin/remctl\n{WATCH}")
        yield made
        assert kernel_warnings(consoles(made)) == []


@pytest.fixture
def machine(booted: Machine) -> Iterator[Machine]:
    """All is well, and nobody watches."""
    set_battery(booted, "Full", 100)
    set_sensors(booted, WELL)
    yield booted
    sh(booted, "kill $(cat /run/pid); remctl health --forget; rm -f /run/changes")
    assert status(booted)["armed"]


def watch(machine: Machine, words: str = "") -> None:
    """Begins; it goes on beside what follows."""
    command = f"unshare -m --propagation private sh /run/watch {words}"
    sh(machine, f"setsid {command} >/run/watch.out 2>&1 </dev/null & echo $! >/run/pid")
    wait_until(lambda: status(machine)["health"] != [], "somebody watches", LIMIT_S)


def test_a_supply_that_is_bad_disarms_the_machine(machine: Machine) -> None:
    watch(machine)
    names = {each["name"]: each["state"] for each in status(machine)["health"]}
    assert names.items() >= {"battery": "ok", "psu": "ok"}.items()
    assert status(machine)["armed"] and status(machine)["flush_on_fail"]
    set_sensors(machine, LOST)
    wait_state(machine, "unhealthy: psu: PS2 Status: Power Supply AC lost")
    assert not status(machine)["armed"] and not status(machine)["flush_on_fail"]
    assert 'remanence_condition{name="psu"} 1' in sh(machine, "remctl metrics").splitlines()
    set_sensors(machine, WELL)
    wait_state(machine, "armed")
    changes = sh(machine, "cat /run/changes").splitlines()
    assert changes == ["psu: bad PS2 Status: Power Supply AC lost", "psu: ok"]


def test_a_supply_of_redfish_that_is_bad_disarms_the_machine(machine: Machine) -> None:
    """By TLS, on the loopback; over a cut the service goes on, and is asked again."""
    machine.guest.put(repo_dir() / "remctl" / "tests" / "fake" / "bmc.py", "/run/bmc.py")
    sh(machine, SERVE)
    set_supply(machine, "OK")
    dry_run = "remctl health --dry-run | grep ^redfish"
    wait_until(lambda: sh(machine, dry_run) == "redfish: ok", "the service is up", LIMIT_S)
    watch(machine)
    wait_state(machine, "armed")
    cut_and_resume(machine)
    set_supply(machine, "Critical")
    wait_state(machine, "unhealthy: redfish: PSU 1: Critical")
    assert not status(machine)["armed"]
    set_supply(machine, "OK")
    wait_state(machine, "armed")
    sh(machine, "sed -i s/secret/other/ /etc/remanence/redfish.toml")
    wait_state(machine, "unhealthy: redfish: cannot be asked: user or password is wrong")
    sh(machine, "rm /etc/remanence/redfish.toml")
    wait_state(machine, "unhealthy: redfish: was there, and is gone")
    sh(machine, "remctl health --forget")
    wait_state(machine, "armed")


def test_a_watcher_that_has_died_leaves_no_promise(machine: Machine) -> None:
    watch(machine)
    sh(machine, "kill $(cat /run/pid)")
    wait_until(
        lambda: str(status(machine)["state"]).startswith("unhealthy: "), "it is noticed", LIMIT_S
    )
    assert "nobody has reported it in time" in status(machine)["state"]
    watch(machine)
    wait_state(machine, "armed")


def test_a_battery_that_is_nearly_empty_is_a_stop(machine: Machine) -> None:
    watch(machine)
    resumes = status(machine)["resumes"]
    # The mains are back when the machine is.
    sh(
        machine,
        f"""cat >/run/mains <<'END'
echo Discharging >{BATTERY}/status; echo 7 >{BATTERY}/capacity
while grep -qx {resumes} {SYSFS}/resumes; do sleep 0.1; done
echo Charging >{BATTERY}/status
END
setsid sh /run/mains >/dev/null 2>&1 </dev/null &""",
    )
    machine.guest.close()
    assert machine.wait_off(LIMIT_S) is MachineState.STOPPED
    slot = decode(read_block(machine.files.nvram(machine.config))).newest
    assert slot is not None and slot.body is not None
    assert (slot.state, slot.body.stop_reason) == ("ready", "PLANNED")
    machine.resume()
    machine.wait_resumed(LIMIT_S)
    wait_state(machine, "unhealthy: battery: BAT0 is at 7 %")
    set_battery(machine, "Charging", 11)
    wait_state(machine, "armed")
    assert status(machine)["resumes"] == resumes + 1
    assert sh(machine, "cat /run/changes").splitlines() == [
        "battery: bad BAT0 is at 7 %",
        "batteries are nearly empty",
        "battery: ok",
    ]


def test_with_a_limit_of_0_it_is_none(machine: Machine) -> None:
    """The negative proof."""
    watch(machine, "--low 0")
    set_battery(machine, "Discharging", 1)
    with pytest.raises(HangError):
        machine.wait_off(NO_STOP_S)
    assert status(machine)["armed"]


def by_user(machine: Machine, command: str) -> int:
    """What a user without rights gets, by a program that waits for no password."""
    done = machine.run_in_guest(
        f"runuser -u nobody -- pkexec --disable-internal-agent remctl {command}",
        check=False,
        limit_s=LIMIT_S,
    )
    return done.returncode


def test_polkit_lets_users_see_and_administrators_stop(machine: Machine) -> None:
    watch(machine)  # what the fixture ends
    sh(machine, "mkdir -p /run/dbus; pgrep -x dbus-daemon || dbus-daemon --system --fork")
    assert by_user(machine, "status") != 0, "without the rules (the negative proof)"
    machine.guest.put(repo_dir() / "remctl" / "dist" / POLICY, RULES)
    sh(machine, f"chmod 644 {RULES}")
    wait_until(lambda: by_user(machine, "status") == 0, "a user sees the status", LIMIT_S)
    resumes = status(machine)["resumes"]
    for command in ("stop", "health --forget", "metrics --out /etc/x", "remove"):
        assert by_user(machine, command) != 0, command
    assert sh(machine, "test -e /etc/x || echo none") == "none"
    assert status(machine)["resumes"] == resumes
    shown = sh(machine, "pkaction --verbose --action-id org.remanence.remctl.stop")
    words = dict(line.split(":", 1) for line in shown.splitlines() if line.startswith("  imp"))
    assert {name.strip(): word.strip() for name, word in words.items()} == {
        "implicit any": "auth_admin",
        "implicit inactive": "auth_admin",
        "implicit active": "auth_admin",
    }
