# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A server that was installed watches its supplies, by the units of the packages.

Goal: with the timer that an administrator enables the kernel knows what is well; the machine has a
BMC, whose sensors the kernel's driver reads, and is on the fast path all the same: over cuts in the
middle of requests the driver goes on. A nearly empty battery is a Stop; a bad one disarms the
machine, and so does a timer that was stopped. Who may do what by polkit. Method: QEMU's BMC, of
which no sensor is a power supply, and a class of batteries that the test writes, as QEMU has none.
Negative proofs: a unit that does not see the battery, and rules of polkit that are not there.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.errors import HangError
from lab.machine import MachineState
from lab.machine.console import kernel_warnings
from lab.testbed.no_stop import consoles
from lab.testbed.server_guest import Server, booted_server, make_server_disk
from lab.testbed.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

LIMIT_S = 180.0
NO_STOP_S = 30.0
CUTS = 5
BMC = ("ipmi-bmc-sim,id=bmc0", "isa-ipmi-kcs,bmc=bmc0")
BATTERY = "/run/class/power_supply/BAT0"
UNIT = "/run/systemd/system/remanence-health.service.d/test.conf"
TIMER = "/run/systemd/system/remanence-health.timer.d/test.conf"
RULES = "/usr/share/polkit-1/actions/org.remanence.remctl.policy"
# Requests one after the other, and a line for each answer: Get Device ID.
REQUESTS = """yes 'raw 6 1' | head -3000000 >/run/raw
systemd-run --quiet --unit=requests sh -c 'stdbuf -oL ipmitool exec /run/raw >/run/said 2>&1'
until test -s /run/said; do sleep 0.1; done"""
ANSWER = " 20 00 "


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("server") / "server.img"
    make_server_disk(file, ("ipmitool", "pkexec", "polkitd"))
    with booted_server("t-server-health", file, devices=BMC) as made:
        assert made.state == "running", made.sh("systemctl --failed")
        yield made
        assert kernel_warnings(consoles(made.machine)) == []


@pytest.fixture(autouse=True)
def unwatched(server: Server) -> Iterator[None]:
    """Nobody watches at the end, and nothing is bad."""
    yield
    server.sh("systemctl stop remanence-health.timer remanence-health.service")
    server.sh(f"rm -rf {UNIT} {TIMER}; systemctl daemon-reload; remctl health --forget")


def known(server: Server) -> dict[str, str]:
    return {each["name"]: each["state"] for each in server.status["health"]}


def watch(server: Server, battery: bool, period_s: int = 300) -> None:
    """By the units, which look more often here; the service sees our class of batteries or not."""
    server.sh(f"mkdir -p $(dirname {UNIT}) $(dirname {TIMER}) {BATTERY}")
    binds = "BindReadOnlyPaths=/run/class:/sys/class" if battery else ""
    start = f"ExecStart=\\nExecStart=/usr/sbin/remctl health --period {period_s}"
    server.sh(f"printf '[Service]\\n{start}\\n{binds}\\n' >{UNIT}")
    times = "OnUnitActiveSec=\\nOnActiveSec=0\\nOnUnitActiveSec=2\\nAccuracySec=1"
    server.sh(f"printf '[Timer]\\n{times}\\n' >{TIMER}; systemctl daemon-reload")
    server.sh("systemctl start remanence-health.timer")
    wait_until(lambda: known(server) != {}, "the kernel is told", LIMIT_S)


def set_battery(server: Server, state: str, percent: int) -> None:
    words = {"type": "Battery", "status": state, "capacity": percent}
    lines = [f"echo {text} >{BATTERY}/{file}" for file, text in words.items()]
    server.sh(f"mkdir -p {BATTERY}; {'; '.join(lines)}")


def wait_state(server: Server, text: str) -> None:
    wait_until(lambda: text in str(server.status["state"]), f"the machine is {text}", LIMIT_S)


def test_the_units_are_those_of_the_package(server: Server) -> None:
    """As an administrator enables them. Of supplies this BMC has no sensor."""
    assert server.sh("systemctl is-enabled remanence-health.timer || true") == "disabled"
    assert known(server) == {}
    server.sh("systemctl enable --now remanence-health.timer")
    wait_until(lambda: known(server) == {"nvdimm": "ok"}, "the kernel is told", LIMIT_S)
    assert server.status["armed"]
    assert server.sh("systemctl show -P Result remanence-health.service") == "success"
    assert server.sh("ipmitool sdr type 'Power Supply' && echo answered").endswith("answered")
    server.sh("systemctl disable -q --now remanence-health.timer")


def answers(server: Server) -> int:
    return int(server.sh("wc -l </run/said"))


def wait_answers(server: Server, count: int) -> None:
    wait_until(lambda: answers(server) >= count, f"there are {count} answers", LIMIT_S)


def test_a_driver_of_ipmi_goes_on_after_cuts(server: Server) -> None:
    """On the fast path, with a request under way in most cuts; it may end with an error."""
    assert server.stop_mode == "fast"
    server.sh(REQUESTS)
    for _ in range(CUTS):
        assert server.cut().stopped
        server.power_on()
        wait_answers(server, answers(server) + 100)
    assert server.stop_mode == "fast"
    assert server.sh("systemctl is-active requests") == "active"
    failed = int(server.sh(f"grep -vc '^{ANSWER}' /run/said || true"))
    assert failed <= 2 * CUTS, server.sh(f"grep -v '^{ANSWER}' /run/said | head")
    server.sh("systemctl stop requests")


def test_a_battery_that_is_nearly_empty_is_a_stop(server: Server) -> None:
    set_battery(server, "Full", 100)
    watch(server, battery=True)
    assert known(server)["battery"] == "ok"
    boot_id, resumes = server.boot_id, server.status["resumes"]
    server.sh(
        f"""cat >/run/mains <<'END'
echo 7 >{BATTERY}/capacity; echo Discharging >{BATTERY}/status
while grep -qx {resumes} /sys/kernel/remanence/resumes; do sleep 0.1; done
echo Charging >{BATTERY}/status
END
systemd-run --quiet sh /run/mains"""
    )
    server.machine.guest.close()
    assert server.machine.wait_off(LIMIT_S) is MachineState.STOPPED
    server.power_on()
    assert (server.boot_id, server.status["resumes"]) == (boot_id, resumes + 1)
    wait_state(server, "unhealthy: battery: BAT0 is at 7 %")
    assert server.sh("systemctl is-system-running") == "running", "a bad supply is no failed unit"
    set_battery(server, "Charging", 20)
    wait_state(server, "armed")
    log = server.sh("journalctl -q -o cat -u remanence-health.service")
    assert "battery: bad BAT0 is at 7 %" in log.splitlines()


def test_without_the_battery_in_sight_there_is_no_stop(server: Server) -> None:
    """The negative proof."""
    set_battery(server, "Discharging", 3)
    watch(server, battery=False)
    with pytest.raises(HangError):
        server.machine.wait_off(NO_STOP_S)
    assert server.status["armed"]


def test_a_timer_that_was_stopped_leaves_no_promise(server: Server) -> None:
    watch(server, battery=False, period_s=5)
    server.sh("systemctl stop remanence-health.timer")
    wait_state(server, "unhealthy: nvdimm: nobody has reported it in time")
    server.sh("remctl health --forget")
    assert server.status["armed"]


def refused(server: Server, command: str) -> bool:
    """Whether a user without rights may not have this run."""
    words = f"runuser -u nobody -- pkexec --disable-internal-agent remctl {command}"
    return not server.machine.run_in_guest(words, check=False, limit_s=LIMIT_S).ok


def test_polkit_lets_users_see_and_administrators_stop(server: Server) -> None:
    shown = server.sh("pkaction --verbose --action-id org.remanence.remctl.stop")
    assert shown.count("auth_admin\n") + shown.endswith("auth_admin") >= 3, shown
    assert not refused(server, "status")
    resumes = server.status["resumes"]
    for command in ("stop", "health --forget", "metrics --out /etc/x", "remove"):
        assert refused(server, command), command
    assert server.status["resumes"] == resumes
    server.sh(f"mv {RULES} /root/policy")
    wait_until(lambda: refused(server, "status"), "without the rules he may not", LIMIT_S)
    server.sh(f"mv /root/policy {RULES}")
    wait_until(lambda: not refused(server, "status"), "with them he may again", LIMIT_S)
