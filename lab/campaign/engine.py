# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The engine as a program: one process for one slice of one round of cuts of one recording.

A worker of a campaign runs this too, maybe on another machine: so it takes and returns plain
values, and the paths in it are those of the worker.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import run
from lab.errors import Exit, InfraError, RemError, UsageError

SLICE_LIMIT_S = 3600.0


@dataclass(frozen=True)
class Work:
    """One slice: what a worker is given."""

    engine: str
    recording: str
    seed: int
    round: int
    cuts: int
    slice: int
    slices: int


@dataclass(frozen=True)
class Judged:
    """What it gives back."""

    work: Work
    outcomes: list[dict[str, Any]]
    made: int
    cpu_ns: int


@dataclass(frozen=True)
class Survey:
    """What a recording holds."""

    events: int
    write_backs: int
    kinds: dict[str, int]
    segments: list[dict[str, Any]]
    words: list[int] = field(default_factory=list)


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


def survey(engine: Path, recording: Path) -> Survey:
    raw = json.loads(_call(engine, "survey", recording))
    known = {name: raw[name] for name in Survey.__dataclass_fields__}
    return Survey(**known)


def judge(work: Work) -> Judged:
    """Judge one slice."""
    out = _call(
        work.engine,
        "judge",
        work.recording,
        *("--seed", str(work.seed)),
        *("--round", str(work.round)),
        *("--cuts", str(work.cuts)),
        *("--slice", str(work.slice)),
        *("--slices", str(work.slices)),
    )
    lines = [json.loads(line) for line in out.splitlines()]
    last = lines.pop()
    return Judged(work, lines, int(last["made"]), int(last["cpu_ns"]))


def replay(
    engine: Path, recording: Path, cut: int, evict: str, trace: int, media: Path | None
) -> dict[str, Any]:
    """One cut, told in full."""
    words = ["--cut", str(cut), "--evict", evict, "--trace", str(trace)]
    if media is not None:
        words += ["--media", str(media)]
    told: dict[str, Any] = json.loads(_call(engine, "replay", recording, *words))
    return told


def lost(engine: Path, recording: Path, cut: int, evict: str, to: Path) -> None:
    """Files `media`, `seen` and `writers` of one cut, in the folder *to*."""
    _call(engine, "lost", recording, "--cut", str(cut), "--evict", evict, "--to", to)


def synth(engine: Path, directory: Path, seed: int, mutant: str | None = None) -> list[Path]:
    """Recordings of the model of the protocol: of a Stop and of a Go."""
    words = ["--seed", str(seed)] + (["--mutant", mutant] if mutant else [])
    _call(engine, "synth", directory, *words)
    return [directory / "stop", directory / "go"]


def model_mutants(engine: Path) -> dict[str, frozenset[str]]:
    """The model's bugs: the verdicts that count for each; none: any verdict does."""
    lines = (line.split() for line in _call(engine, "mutants").splitlines())
    return {words[0]: frozenset(words[1:]) for words in lines if words}


def broken_text(verdict: Any) -> str:
    """What a violation is, in words; empty for none."""
    if not isinstance(verdict, dict):
        return ""
    broken = verdict["violation"]
    if isinstance(broken, dict):
        ((name, fields),) = broken.items()
        said = ", ".join(f"{key} {value}" for key, value in fields.items())
        return f"{name} ({said})"
    return str(broken)
