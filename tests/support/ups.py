# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NUT with its own dummy of a UPS, whose mains fail until the machine has resumed."""

from __future__ import annotations

from lab.machine import Machine
from lab.testbed.waiting import wait_until

SCRIPT = "/usr/lib/remanence/ups-low"
RESUMES = "/sys/kernel/remanence/resumes"
# Of /etc/nut; run as root. What starts it is another command, by the system's kind.
CONFIGURE = f"""cd /etc/nut
echo MODE=standalone >nut.conf
printf '[ups]\\ndriver = dummy-ups\\nport = ups.dev\\nmode = dummy-once\\n' >ups.conf
printf '[mon]\\npassword = x\\nupsmon primary\\n' >upsd.users
cat >upsmon.conf <<'END'
MONITOR ups@localhost 1 mon x primary
SHUTDOWNCMD {SCRIPT}
POWERDOWNFLAG /run/nut/killpower
POLLFREQ 1
POLLFREQALERT 1
HOSTSYNC 1
FINALDELAY 0
END
echo 'ups.status: OL' >ups.dev
"""
# Run beside everything else: the mains fail, and are back when the machine is.
MAINS = f"""n=$(cat {RESUMES})
echo 'ups.status: OB LB' >/etc/nut/ups.dev
while [ "$(cat {RESUMES})" = "$n" ]; do sleep 0.1; done
echo 'ups.status: OL' >/etc/nut/ups.dev
"""
STATUS = "upsc ups@localhost ups.status 2>/dev/null"
SETTLED_LIMIT_S = 120.0


def wait_settled(machine: Machine, limit_s: float = SETTLED_LIMIT_S) -> None:
    """The UPS is on the mains, and somebody watches it."""
    command = f'test "$({STATUS})" = OL && pgrep -x upsmon'
    wait_until(
        lambda: machine.run_in_guest(command, check=False).ok,
        "NUT watches a UPS that is on the mains",
        limit_s,
    )
