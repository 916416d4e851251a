# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A filter of system calls for a file server: nothing that it makes can give anybody rights.

A guest's root may ask for any mode and any kind of file. On the host a set-user-ID program or a
device in the shared folder would give the rights of the folder's owner to all who can reach it.
"""

from __future__ import annotations

import errno
import struct

AUDIT_ARCH_X86_64 = 0xC000003E
X32_BIT = 0x40000000  # calls of another ABI, with numbers of their own
SPECIAL_MODE_BITS = 0o6000  # set-user-ID, set-group-ID

# System calls, and which argument is a mode.
MODE_ARGUMENTS = {
    2: 2,  # open
    85: 1,  # creat
    90: 1,  # chmod
    91: 1,  # fchmod
    257: 3,  # openat
    268: 2,  # fchmodat
    452: 2,  # fchmodat2
}
REFUSED = (
    133,  # mknod
    259,  # mknodat
)
# Its mode is in memory, where a filter cannot look; libraries fall back to openat().
NOT_THERE = (437,)  # openat2

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16


def share_filter() -> bytes:
    """A program for seccomp (struct sock_filter), as bwrap's --seccomp takes it."""
    denied = _ERRNO | errno.EPERM
    program = [
        _step(_LOAD, _ARCH_AT),
        _step(_EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER_AT),
        _step(_ANY_BIT, X32_BIT, 0, 1),
        _step(_RETURN, _KILL),
    ]
    for number in REFUSED:
        program += [_step(_EQUAL, number, 0, 1), _step(_RETURN, denied)]
    for number in NOT_THERE:
        program += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | errno.ENOSYS)]
    for number, argument in MODE_ARGUMENTS.items():
        program += [
            _step(_EQUAL, number, 0, 4),
            _step(_LOAD, _ARGUMENTS_AT + 8 * argument),
            _step(_ANY_BIT, SPECIAL_MODE_BITS, 0, 1),
            _step(_RETURN, denied),
            _step(_RETURN, _ALLOW),
        ]
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
