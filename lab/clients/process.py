# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The driver's side of a client process: start it where the guest can be reached, control it.

The other side is lab/clients/__main__.py.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from lab import run
from lab.errors import HangError, InfraError
from lab.machine.network import Network, TapNetwork
from lab.paths import repo_dir

ANSWER_LIMIT_S = 30.0
START_LIMIT_S = 30.0


def need_tap(network: Network) -> None:
    """Raise InfraError if connections would end with QEMU."""
    if not isinstance(network, TapNetwork):
        raise InfraError(
            "connections that survive QEMU need a tap in a network namespace, which needs "
            f"root here ({network.note}): run this as root"
        )


class ClientProcess:
    """`with ClientProcess(prefix, "writers", ...) as load: load.ask("status")`."""

    def __init__(self, exec_prefix: Sequence[str], kind: str, **options: object) -> None:
        words = [*exec_prefix, sys.executable, "-m", "lab.clients", kind]
        for key, value in options.items():
            words += [f"--{key.replace('_', '-')}", str(value)]
        self.name = " ".join([kind, *(str(v) for v in options.values() if isinstance(v, str))])
        self._child = run.spawn(
            words,
            cwd=repo_dir(),
            env={"PYTHONPATH": str(repo_dir())},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
        )
        self._pending = b""
        try:
            self.started: dict[str, Any] = self._answer(START_LIMIT_S)
        except BaseException:
            self.close()
            raise

    @classmethod
    def beside(cls, network: Network, kind: str, **options: object) -> Self:
        """In the network of a machine, whose connections survive cuts."""
        need_tap(network)
        return cls(network.exec_prefix(), kind, **options)

    def ask(
        self, op: str, answer_limit_s: float = ANSWER_LIMIT_S, **arguments: object
    ) -> dict[str, Any]:
        """One operation of the client; `answer_limit_s` bounds the wait for its answer."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            self._child.stdin.flush()
        except OSError as error:
            raise InfraError(f"the client `{self.name}` has ended: {error}") from error
        return self._answer(answer_limit_s)

    def _answer(self, limit_s: float) -> dict[str, Any]:
        assert self._child.stdout is not None
        fd = self._child.stdout.fileno()
        end_s = time.monotonic() + limit_s
        while b"\n" not in self._pending:
            rest_s = end_s - time.monotonic()
            if rest_s <= 0 or not select.select([fd], [], [], rest_s)[0]:
                raise HangError(f"the client `{self.name}` gave no answer within {limit_s:g} s")
            data = self._child.stdout.buffer.read1(65536)  # type: ignore[attr-defined]
            if not data:
                raise InfraError(f"the client `{self.name}` has ended (see its message above)")
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        message = json.loads(line)
        if not message["ok"]:
            raise InfraError(f"the client `{self.name}`: {message['message']}")
        result: dict[str, Any] = message["result"]
        return result

    def close(self) -> None:
        if self._child.stdin is not None:
            self._child.stdin.close()
        run.end(self._child)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
