# SPDX-License-Identifier: Apache-2.0 OR MIT
"""etcd's JSON gateway, without a library, which might retry."""

from __future__ import annotations

import base64
import http.client
import json
from contextlib import closing
from typing import Any

PORT = 2379
ASK_LIMIT_S = 3.0


class Refused(Exception):
    """The member answered, and did not do it, or does not know."""


# What a member may answer with that is no answer.
FAILURES = (OSError, http.client.HTTPException, Refused, ValueError)


def connect(node: str, limit_s: float | None = ASK_LIMIT_S) -> closing[http.client.HTTPConnection]:
    """One connection, closed at the end of the block; each answer within the limit, if any."""
    return closing(http.client.HTTPConnection(node, PORT, timeout=limit_s))


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def ask(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """One request of etcd's JSON gateway; OSError or HTTPException if the connection ends."""
    words = json.dumps(body)
    connection.request("POST", path, words, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise Refused(text[:200].decode("utf-8", "replace"))
    found: dict[str, Any] = json.loads(text)
    return found


def write_value(connection: http.client.HTTPConnection, key: str, value: str) -> None:
    ask(connection, "/v3/kv/put", {"key": encode(key), "value": encode(value)})


def read_value(connection: http.client.HTTPConnection, key: str) -> int | None:
    """A linearizable read; None if there is no such key."""
    found = ask(connection, "/v3/kv/range", {"key": encode(key)}).get("kvs")
    return int(base64.b64decode(found[0]["value"])) if found else None


def counters(node: str, names: dict[str, str]) -> dict[str, int]:
    """A member's own metrics, each over all of its peers; *names* by what they are called here."""
    with connect(node) as connection:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return {
        ours: int(sum(float(line.split()[-1]) for line in lines if line.startswith(theirs)))
        for ours, theirs in names.items()
    }
