# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The memory model through `rem`: bad input, the parts, and experiments with few samples."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from lab.commands.media import memory_of
from lab.errors import UsageError
from lab.experiment.run import Experiment, Report
from lab.machine import caches
from lab.machine.tracing import RECORDS_MAX, check_records
from lab.media.engine import Engine, memory, value
from lab.media.redis import CPUS, NVRAM_BYTES, record_redis
from lab.result import Result


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.ready()


class Small:
    """What an experiment is given, for few samples."""

    tier = "ci"
    seed = 1
    is_ci = True


def test_settings_are_mechanisms_or_numbers() -> None:
    found = memory_of("lightpc", ["xcc=off", "read_ns=60", "layout=rank", "threshold_writes=10"])
    assert found["xcc"] is False and found["layout"] == "rank" and found["threshold_writes"] == 10
    assert found["change"] == {"read_ns": 60.0}
    for bad in ("xcc", "xcc=maybe", "read_ns=fast"):
        with pytest.raises(UsageError):
            memory_of("lightpc", [bad])


def test_a_trace_of_no_size_is_refused() -> None:
    for records in (0, -1, RECORDS_MAX + 1):
        with pytest.raises(UsageError, match="records"):
            check_records(records)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_what_a_machine_asks_of_memory_is_traced(engine: Engine, tmp_path: Path) -> None:
    """Redis in a machine with caches: the trace ends at its bound, has what the caches counted, and
    is replayed."""
    records = 100_000
    machine, path = record_redis(f"media-test-{os.getpid()}", records)
    with machine:
        trace = shutil.copy(path, tmp_path / "redis.trace")
        told = caches.told(machine)
    assert told is not None
    seen = engine.ask("trace", file=str(trace))
    assert seen["records"] >= records and seen["reads"] + seen["writes"] > records * 9 // 10
    assert seen["cpus"] == CPUS and seen["instructions"] > seen["records"]
    assert 0 < seen["reads"] <= told["memory_reads"] and 0 < seen["writes"] <= told["write_backs"]
    assert seen["lines"] * 64 == NVRAM_BYTES
    done = engine.ask("replay", memory=memory("lightpc"), trace=str(trace))
    assert value(done, "reads") == seen["reads"] and value(done, "writes") == seen["writes"]
    assert done["instructions"] == seen["instructions"]


@pytest.mark.full
def test_what_cannot_be_meant_is_one_line(engine: Engine, tmp_path: Path) -> None:
    trace = tmp_path / "wild.trace"
    trace.write_bytes(b"REMTRACE" + b"\xff" * 40)
    for job in (
        {"memory": memory("litepc")},
        {"memory": memory("lightpc", change={"read_nss": 1})},
        {"memory": memory("lightpc"), "lines": 1000},
        {"memory": memory("lightpc", part_file=str(tmp_path / "none.toml"))},
    ):
        with pytest.raises(UsageError) as error:
            engine.ask("traffic", **job)
        assert "\n" not in error.value.message and error.value.message
    with pytest.raises(UsageError, match="wild.trace"):
        engine.ask("trace", file=str(trace))


@pytest.mark.full
def test_every_number_of_every_part_has_a_source(engine: Engine) -> None:
    rows = engine.ask("parts")["parts"]
    assert len(rows) > 80 and all(row["source"] for row in rows)
    assert any(row["assumed"] for row in rows)
    assert any(not row["assumed"] for row in rows)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["cma-t1", "lpc-f2", "lpc-f16", "lpc-f17", "lpc-t2", "lpc-ablation", "lpc-ecc"]
)
def test_an_experiment_comes_out(name: str) -> None:
    experiment = Experiment.load(name)
    raw: Any = json.loads(json.dumps(experiment.module.measure(Small())))
    report = Report(Result(name))
    experiment.module.judge(raw, experiment.paper.values, report)
    assert not report.failed


@pytest.mark.full
def test_a_fault_that_no_check_looks_for_is_silent(engine: Engine) -> None:
    """The negative proof of lpc-ecc: without the checks of pieces its campaign is red."""
    job = {"faults": 500, "second_code": False, "seed": 1}
    assert engine.ask("ecc", **job)["silent"] == 0
    off = engine.ask("ecc", **job, mutant={"ignore_checks": True, "drop_containment": True})
    assert off["silent"] > 0 and off["ok"] is False
