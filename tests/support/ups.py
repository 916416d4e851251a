# SPDX-License-Identifier: Apache-2.0 OR MIT
"""NUT with its own dummy of a UPS, whose mains fail until the machine has resumed."""

from __future__ import annotations

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
# The UPS is on the mains, and somebody watches it.
SETTLED = 'test "$(upsc ups@localhost ups.status 2>/dev/null)" = OL && pgrep -x upsmon'
