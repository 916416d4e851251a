# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Core-Memory Age, Table 1: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.media.engine import Engine, memory

MIXES = {"read": 100, "write": 0, "mix": 67}
SATURATED = 1024  # requests in flight
LINES = 1 << 24


def _ask(engine: Engine, requests: int, block: int, mix: str, flight: int, **change: float) -> Any:
    return engine.ask(
        "traffic",
        memory=memory("optane", change=change),
        lines=LINES,
        block_bytes=block,
        read_percent=MIXES[mix],
        in_flight=flight,
        requests=requests,
    )


def measure(it: Context) -> dict[str, Any]:
    engine = Engine.ready()
    requests = 20_000 if it.is_ci else 200_000

    def ask(block: int, mix: str, flight: int, **change: float) -> Any:
        return _ask(engine, requests, block, mix, flight, **change)

    cases = [(mix, block) for mix in MIXES for block in (64, 256)]
    return {
        "idle_ns": ask(64, "read", 1)["read_mean_ns"],
        "bytes_per_ns": {
            f"{mix}_{block}": ask(block, mix, SATURATED)["bandwidth_bytes_per_ns"]
            for mix, block in cases
        },
        "media_accesses_per_read_64": _accesses(ask(64, "read", SATURATED)),
        "banks": {
            banks: ask(64, "read", SATURATED, media_banks=banks)["bandwidth_bytes_per_ns"]
            for banks in (1, 2, 3, 4, 5, 6, 8)
        },
        "in_flight": {
            flight: _curve(ask(64, "read", flight)) for flight in (1, 2, 4, 8, 16, 64, 256)
        },
        "block": {
            block: {mix: ask(block, mix, 64)["bandwidth_bytes_per_ns"] for mix in ("read", "write")}
            for block in (64, 128, 256, 512, 1024, 4096)
        },
    }


def _accesses(answer: Any) -> float:
    counts = answer["memory"]
    return float(counts["media_reads"]["value"] / counts["reads"]["value"])


def _curve(answer: Any) -> dict[str, float]:
    return {"ns": answer["read_mean_ns"], "bytes_per_ns": answer["bandwidth_bytes_per_ns"]}


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    ours = {"idle_ns": raw["idle_ns"], **raw["bytes_per_ns"]}
    theirs = {"idle_ns": paper["idle_ns"], **paper["bytes_per_ns"]}
    for name, given in theirs.items():
        off = (ours[name] / given - 1) * 100
        report.add(name, round(ours[name], 3), "ns" if name == "idle_ns" else "bytes/ns")
        report.add(f"{name}_off_percent", round(off, 2), "%")
        report.expect(
            f"{name} is {given} within {paper['tolerance_percent']} %",
            abs(off) <= paper["tolerance_percent"],
        )
    accesses = raw["media_accesses_per_read_64"]
    report.add("media_accesses_per_read_64", round(accesses, 3), "")
    report.expect("a read of 64 B costs a media access of 256 B", accesses > 0.97)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    left, middle, right = figure.subplots(1, 3)
    names = list(paper["bytes_per_ns"])
    at = range(len(names))
    left.bar([x - 0.2 for x in at], [paper["bytes_per_ns"][n] for n in names], 0.4, label="paper")
    left.bar([x + 0.2 for x in at], [raw["bytes_per_ns"][n] for n in names], 0.4, label="model")
    left.set_xticks(list(at), names, rotation=45)
    left.set(ylabel="GB/s")
    left.legend(frameon=False)
    flights = raw["in_flight"]
    middle.plot([c["bytes_per_ns"] for c in flights.values()], [c["ns"] for c in flights.values()],
                marker="o")  # fmt: skip
    middle.axhline(paper["idle_ns"], color="black", linestyle=":")
    middle.set(xlabel="GB/s of 64 B reads", ylabel="ns a read", yscale="log")
    for mix in ("read", "write"):
        right.plot([int(b) for b in raw["block"]], [v[mix] for v in raw["block"].values()],
                   marker="o", label=mix)  # fmt: skip
    right.set(xlabel="bytes of a request", ylabel="GB/s", xscale="log")
    right.legend(frameon=False)
