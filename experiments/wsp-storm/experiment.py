# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, sections 1 and 2, recovery storms: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.machine.machine import Machine
from lab.testbed.machines import make_config

LIMIT_S = 240.0
KEYS, KEYS_CI = 64_000, 8_000
VALUE_BYTES = 1000
GROWS_MIN = 0.01  # bytes read for each byte of state: less is none
SERVERS = (1, 10, 100, 1000)
START = "redis-server --save '' --rdbcompression no --dir /root --daemonize yes >/dev/null"
# All programs that are used to start it and to ask it are in memory then.
WARM = """redis-server --dir /run --daemonize yes >/dev/null
until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done
redis-cli dbsize | grep -q .; redis-cli shutdown nosave"""
# A server answers an error while it reads its file.
READY = (
    'until redis-cli dbsize 2>/dev/null | grep -q "^[0-9]"; do sleep 0.1; done; redis-cli dbsize'
)
FILL = """{warm}
{start}
until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done
redis-cli eval 'local v = string.rep("v", {bytes}) for i = 1, {keys} do redis.call("set", "k" .. i, v) end' 0 >/dev/null
redis-cli save >/dev/null
sync
redis-cli info memory | sed -n 's/^used_memory_dataset://p' | tr -d '\\r'"""  # noqa: E501


def measure(it: Context) -> dict[str, Any]:
    keys = KEYS_CI if it.is_ci else KEYS
    return {"small": _server(keys // 4), "large": _server(keys)}


def _server(keys: int) -> dict[str, Any]:
    """A server with so many keys, after Go and after a cold boot."""
    config = make_config("storm")
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(LIMIT_S)
        fill = FILL.format(warm=WARM, start=START, keys=keys, bytes=VALUE_BYTES)
        state_bytes = int(machine.run_in_guest(fill, limit_s=LIMIT_S).stdout.split()[-1])
        machine.guest.close()
        stopped = machine.cut().stopped
        machine.resume()
        note = machine.wait_resumed(LIMIT_S)
        after_go = int(machine.run_in_guest(READY, limit_s=LIMIT_S).stdout)
        go_bytes = _read_bytes(machine)
        machine.guest.close()
        machine.cut()
        machine.resume(cold=True)
        machine.wait_up(LIMIT_S)
        machine.run_in_guest(WARM, limit_s=LIMIT_S)
        boot_bytes = _read_bytes(machine)
        again = machine.run_in_guest(f"{START}; {READY}", limit_s=LIMIT_S).stdout
        return {
            "keys": keys,
            "state_bytes": state_bytes,
            "go": {"resumed": stopped and note.resumed, "keys": after_go, "read_bytes": go_bytes},
            "cold": {
                "keys": int(again),
                "boot_bytes": boot_bytes,
                "read_bytes": _read_bytes(machine) - boot_bytes,
            },
        }


def _read_bytes(machine: Machine) -> int:
    """From the machine's disk since its power came on."""
    assert machine.qemu is not None, "the machine is off"
    disks = machine.qemu.qmp.execute("query-blockstats")
    return sum(int(disk["stats"]["rd_bytes"]) for disk in disks)


def _per_byte(raw: dict[str, Any], way: str) -> float:
    """Bytes read for each byte that a server holds more; what all servers read is not in it."""
    small, large = raw["small"], raw["large"]
    more = large[way]["read_bytes"] - small[way]["read_bytes"]
    return float(more / (large["state_bytes"] - small["state_bytes"]))


def _storm_s(raw: dict[str, Any], paper: dict[str, Any], way: str, servers: int) -> float:
    """Until the last of so many servers has its state, from a back end that all share."""
    fixed_bytes = raw["large"][way]["read_bytes"]
    bytes_ = max(_per_byte(raw, way), 0) * paper["memory_gb"] * 1e9 + fixed_bytes
    return float(servers * bytes_ / (paper["back_end_gb_per_s"] * 1e9))


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for size, server in raw.items():
        report.count(f"{size}_state_bytes", server["state_bytes"], "B")
        for way in ("cold", "go"):
            report.count(f"{size}_{way}_read_bytes", server[way]["read_bytes"], "B")
            report.expect(f"{size}, {way}: the server has all its keys",
                          server[way]["keys"] == server["keys"])  # fmt: skip
        report.expect(f"{size}: the machine resumes", server["go"]["resumed"])
        report.expect(
            f"{size}: a cold start reads at least what the server holds",
            server["cold"]["read_bytes"] >= server["keys"] * VALUE_BYTES,
        )
    for way in ("cold", "go"):
        report.result.add(f"{way}_per_byte", round(_per_byte(raw, way), 4), "share", "counted")
        for servers in SERVERS:
            report.add(f"{way}, {servers} servers, ns",
                       round(_storm_s(raw, paper, way, servers) * 1e9), "ns")  # fmt: skip
    one_s = _storm_s(raw, paper, "cold", 1)
    report.add("servers_of_the_outage", round(paper["outage_s"] / one_s, 1), "servers")
    report.expect(
        f"what Go reads does not grow with what the server holds ({_per_byte(raw, 'go'):.5f})",
        abs(_per_byte(raw, "go")) < GROWS_MIN,
    )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    for way, label in (("cold", "cold start"), ("go", "Go")):
        times_s = [max(_storm_s(raw, paper, way, servers), 1e-3) for servers in SERVERS]
        axes.plot(SERVERS, times_s, marker="o", label=label)
    axes.axhline(paper["outage_s"], color="black", linestyle=":", label="outage that WSP cites")
    axes.set(xscale="log", yscale="log", xlabel="servers that come back at once",
             ylabel="s at the shared back end, until the last")  # fmt: skip
    axes.legend(frameon=False, fontsize=8)
