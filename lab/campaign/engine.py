# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine as a program: one process for one slice of one round of cuts of one recording.

A worker of a campaign also runs this, maybe on another machine: so it takes and returns plain
values, and its paths are those of the worker.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import run
from lab.errors import Exit, InfraError, RemError, UsageError
from lab.setup.campaign import MODEL

SLICE_LIMIT_S = 3600.0


@dataclass(frozen=True)
class Work:
    """One slice: the input of a worker."""

    engine: str
    recording: str
    seed: int
    round: int
    cuts: int
    slice: int
    slices: int
    only: tuple[str, ...] = ()  # kinds of cuts; all, in their shares, if empty


@dataclass(frozen=True)
class Judged:
    """The output of a worker."""

    work: Work
    outcomes: list[dict[str, Any]]
    made: int
    cpu_ns: int


def _call(engine: str | Path, *words: str | Path) -> str:
    done = run.run([engine, *words], check=False, timeout_s=SLICE_LIMIT_S)
    if done.returncode == Exit.USAGE:
        raise UsageError(done.stderr.strip())
    if done.returncode == Exit.INFRASTRUCTURE:
        raise InfraError(done.stderr.strip())
    if not done.ok:
        last = done.stderr.strip().splitlines()
        raise RemError(f"the campaign's engine ended with {done.returncode}: {' '.join(last[:2])}")
    return done.stdout


def judge(work: Work) -> Judged:
    """Check one slice."""
    out = _call(
        work.engine,
        "judge",
        work.recording,
        *("--seed", str(work.seed)),
        *("--round", str(work.round)),
        *("--cuts", str(work.cuts)),
        *("--slice", str(work.slice)),
        *("--slices", str(work.slices)),
        *(("--only", ",".join(work.only)) if work.only else ()),
    )
    lines = [json.loads(line) for line in out.splitlines()]
    last = lines.pop()
    return Judged(work, lines, int(last["made"]), int(last["cpu_ns"]))


def replay(
    engine: Path, recording: Path, cut: int, evict: str, trace: int, media: Path | None
) -> dict[str, Any]:
    """One cut, reported in full."""
    words = ["--cut", str(cut), "--evict", evict, "--trace", str(trace)]
    if media is not None:
        words += ["--media", str(media)]
    report: dict[str, Any] = json.loads(_call(engine, "replay", recording, *words))
    return report


def lost(engine: Path, recording: Path, cut: int, evict: str, to: Path) -> None:
    """Write `media`, `seen` and `writers` of one cut into the folder *to*."""
    _call(engine, "lost", recording, "--cut", str(cut), "--evict", evict, "--to", to)


def synth(
    engine: Path, directory: Path, seed: int, mutant: str | None = None, uncovered: bool = False
) -> list[Path]:
    """Make recordings of the protocol's model: of a Stop and of a Go.

    *uncovered*: no persistence domain covers the memory controller's queue. A bug knows whether it
    needs that.
    """
    words = ["--seed", str(seed)] + (["--mutant", mutant] if mutant else [])
    words += ["--uncovered"] if uncovered else []
    _call(engine.with_name(MODEL), "write", directory, *words)
    return [directory / "stop", directory / "go"]


def model_mutants(engine: Path) -> dict[str, frozenset[str]]:
    """The model's bugs: of each, the names of the violations by which it must be found."""
    lines = _call(engine.with_name(MODEL), "mutants").splitlines()
    return {name: frozenset(violates) for name, *violates in map(str.split, lines)}


def broken_text(verdict: Any) -> str:
    """What a violation is, in words; empty for none."""
    if not isinstance(verdict, dict):
        return ""
    broken = verdict["violation"]
    if isinstance(broken, dict):
        ((name, fields),) = broken.items()
        text = ", ".join(f"{key} {value}" for key, value in fields.items())
        return f"{name} ({text})"
    return str(broken)
