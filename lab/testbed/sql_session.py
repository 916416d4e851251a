# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One session by ssh in which psql adds a row at a time: each answer is a promise.

The connection is never opened again. The thread that writes ends with the session.
"""

from __future__ import annotations

import subprocess
import threading

from lab import run
from lab.machine import Machine
from lab.machine.guest import ssh_words
from lab.testbed.waiting import wait_until

TABLE = "create table promises (n bigint primary key)"
# Line by line, as at a terminal; psql ends with the first error.
PSQL = "runuser -u postgres -- stdbuf -oL psql -qAtX -v ON_ERROR_STOP=1"
ACK_LIMIT_S = 120.0
END_LIMIT_S = 30.0


class SqlSession:
    """Close it at the end. *acked*: rows whose commit psql has answered."""

    def __init__(self, machine: Machine) -> None:
        self.acked = 0
        self._ends = False
        self._child = run.spawn(
            [*ssh_words(machine.network), PSQL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._thread = threading.Thread(target=self._run, name="rem-sql", daemon=True)
        self._thread.start()

    @property
    def lives(self) -> bool:
        """Whether the session is as it was: neither ssh nor psql has ended."""
        return self._child.poll() is None and self._thread.is_alive()

    def more(self, rows: int) -> bool:
        """Wait until so many more rows are acknowledged; False if the session ends before."""
        enough = self.acked + rows
        wait_until(
            lambda: self.acked >= enough or not self.lives, f"{rows} rows are added", ACK_LIMIT_S
        )
        return self.acked >= enough

    def _run(self) -> None:
        out, back = self._child.stdin, self._child.stdout
        assert out is not None and back is not None
        try:
            while not self._ends:
                number = self.acked + 1
                out.write(f"insert into promises values ({number}) returning n;\n")
                out.flush()
                if back.readline().strip() != str(number):
                    return
                self.acked = number
        except OSError:
            return

    def close(self) -> None:
        self._ends = True
        self._child.terminate()
        self._thread.join(END_LIMIT_S)
        run.end(self._child)
