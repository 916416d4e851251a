# SPDX-License-Identifier: Apache-2.0 OR MIT
"""IP addresses inside each machine's own network."""

# CONFIG_IP_PNP of the guest's kernel sets the address, so no program is needed for it.
GUEST_ADDRESS = "10.77.0.2"
HOST_ADDRESS = "10.77.0.1"
NETWORK = "10.77.0.0/24"
# Of machines that ask for them (TapNetwork.add_ipv6): not each host has IPv6.
GUEST_ADDRESS6 = "fd77::2"
HOST_ADDRESS6 = "fd77::1"
