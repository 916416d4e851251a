# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients on the host that survive their machine's QEMU and know what they were promised.

Each kind is a process of its own inside the machine's network namespace, driven by JSON lines
(process.py): `writers` (redis or memcached clients that keep requests in flight all the time) and
`peer` (the far end of rem-tcp and rem-fsync). Connections are made once. One that ends, for
whatever reason, is a failure: nothing here reconnects.
"""
