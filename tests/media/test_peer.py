# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Our model of DRAM beside DRAMsim3: the same requests take both as long, as far as each case of
lab/bench/media_peer.py explains, and both open as many rows and refresh as often.

Negative proof: each planted bug of DRAM (models/memory/mutants) whose patch names the promise
`peer` is found by the verdict that it names.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.bench.media_peer import CASES, Case, ask, compare, verdicts
from lab.errors import UsageError
from lab.media.tape import IDLE, READ, TRACE_KIND_SHIFT, WRITE, trace_file
from lab.paths import repo_dir
from lab.setup.media_peer import MediaPeer, MediaPeerMutants, media_mutants
from lab.setup.patch_series import Patch
from lab.setup.products import need

PROMISE = "peer"
MUTANTS = [
    patch
    for patch in media_mutants(repo_dir()).mutants
    if any(it.promise == PROMISE for it in patch.violates)
]
BY_NAME = {case.name: case for case in CASES}
# For each bug the case that it is most likely to break; so few because each takes a second.
FINDS = {
    "close-takes-no-time": "one bank, reads",
    "five-openings-unbounded": "random reads",
    "lines-not-over-groups": "sequential reads",
    "opening-not-counted": "random reads",
    "refresh-counted-once": "redis",
    "refresh-keeps-rows": "sequential reads, low load",
    "refresh-passed-in-queue": "one bank, reads",
    "refresh-takes-no-time": "one bank, reads",
    "write-not-settled": "one bank, a third writes",
}


@pytest.fixture(scope="module")
def program() -> Path:
    return need(MediaPeer())


@pytest.mark.full
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.name))
def test_times_and_counts_are_the_peers(program: Path, case: Case) -> None:
    answer = compare(program, case)
    assert not verdicts(case, answer), (case.why, answer)


@pytest.mark.full
@pytest.mark.parametrize("bug", MUTANTS, ids=lambda bug: str(bug.name))
def test_planted_bug_is_found_by_the_peer(bug: Patch) -> None:
    bugs = need(MediaPeerMutants())
    case = BY_NAME[FINDS[bug.name]]
    named = {it.verdict for it in bug.violates if it.promise == PROMISE}
    assert not verdicts(case, compare(bugs, case)), "without a bug nothing is found"
    assert named & set(verdicts(case, compare(bugs, case, mutant=bug.name)))


@pytest.mark.full
def test_recorded_trace_is_served_by_both(program: Path, tmp_path: Path) -> None:
    """Reads and writes of a file, in its order; pauses are no requests."""
    kinds = [READ, READ, WRITE, IDLE]
    words = [
        (kinds[n % 4] << TRACE_KIND_SHIFT) | (0 if n % 4 == 3 else n * 37 % 4096)
        for n in range(4000)
    ]
    body = b"".join(word.to_bytes(8, "little") for word in words)
    trace = tmp_path / "made.trace"
    trace.write_bytes(trace_file(body, 4096))
    job = {**BY_NAME["redis"].job(), "traffic": {"trace": str(trace), "requests": 3000}}
    job["traffic"]["in_flight"] = 8
    answer = ask(program, "compare", **job)
    for side in ("ours", "theirs"):
        assert (answer[side]["reads"], answer[side]["writes"]) == (2000, 1000)
    job["traffic"]["requests"] = 3001
    with pytest.raises(UsageError, match="3000 reads and writes only"):
        ask(program, "compare", **job)


@pytest.mark.full
def test_program_without_bugs_has_none(program: Path) -> None:
    with pytest.raises(UsageError, match="planted"):
        compare(program, CASES[0], mutant="refresh-keeps-rows")
