# SPDX-License-Identifier: Apache-2.0 OR MIT
"""etcd's JSON gateway, without a library, which might retry."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any

PORT = 2379
ASK_LIMIT_S = 3.0


class Refused(Exception):
    """The member answered, and did not do it, or does not know."""


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


def read_value(connection: http.client.HTTPConnection, key: str) -> int | None:
    """A linearizable read; None if there is no such key."""
    found = ask(connection, "/v3/kv/range", {"key": encode(key)}).get("kvs")
    return int(base64.b64decode(found[0]["value"])) if found else None
