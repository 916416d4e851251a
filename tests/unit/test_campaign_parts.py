# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The parts of a campaign that need no engine: store, mix, shrinking, rotation, page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.campaign import boots, chain, figures, record, runner
from lab.campaign.boots import Booted, choose
from lab.campaign.command import Plan, chosen_mutants, count, count_mix, run
from lab.campaign.engine import Judged, Work, broken_text
from lab.campaign.figures import images_per_s, mix, violations
from lab.campaign.mutants import Board, Found, caches_of, kind_of, machine_mutants, patches
from lab.campaign.mutants import recorded as with_bug
from lab.campaign.page import page
from lab.campaign.record import Recorded
from lab.campaign.shrink import as_eviction, command, shrunk
from lab.campaign.store import Store
from lab.campaign.workload import Workload, standard
from lab.errors import Exit, InfraError, UsageError
from lab.record.boot_note import BootNote
from lab.result import Result
from lab.setup.products import KernelProduct
from lab.turns import rotation
from lab.verdict import Broken, BrokenError

WORK = Work("engine", "/rec/stop", 1, 0, 100, 0, 1)
PLAN = Plan(
    recordings=(),
    model=False,
    images=1,
    seed=1,
    results=None,
    scheduler=None,
    page=None,
    limit_s=None,
    boots=0,
    whole=0,
    mutants="five",
)


def outcome(digest: str, verdict: Any = "cold", **changed: Any) -> dict[str, Any]:
    return {
        "event": 7,
        "write_backs": 3,
        "time_ns": 0,
        "place": "running",
        "eviction": "none",
        "evicted": 0,
        "digest": digest,
        "reason": "not-committed",
        "sequence": 0,
        "verdict": verdict,
        "class": "a",
        "near": False,
        **changed,
    }


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results.sqlite")


def test_image_counts_once_and_a_violation_wins(store: Store) -> None:
    store.add(Judged(WORK, [outcome("1"), outcome("1"), outcome("2", "resumed")], 3, 10**9))
    assert store.images() == 2
    store.add(Judged(WORK, [outcome("1", {"violation": "refused"}, event=9)], 1, 10**9))
    store.add(Judged(WORK, [outcome("1")], 1, 10**9))
    assert store.images() == 2
    assert violations(store) == [("/rec/stop", 9, "none", "running", "refused")]


def test_slice_is_done_when_its_results_are_there(store: Store) -> None:
    assert store.done("/rec/stop") == set()
    store.add(Judged(WORK, [outcome("1")], 1, 10**9))
    store.close()
    assert Store(store.path).done("/rec/stop") == {(0, 0)}
    assert Store(store.path).done("/rec/go") == set()


def test_full_disk_keeps_results_and_the_campaign_can_continue(store: Store) -> None:
    store.add(Judged(WORK, [outcome("1")], 1, 10**9))
    # SQLite reacts in the same way to any refusal of a further page.
    pages = store.scalar("PRAGMA page_count")
    assert store.scalar(f"PRAGMA max_page_count = {pages}") == pages
    more = replace(WORK, slice=1)
    many = Judged(more, [outcome(str(n)) for n in range(2, 2000)], 1998, 10**9)
    with pytest.raises(
        InfraError, match=r"full; .*make room and continue with the same command"
    ) as e:
        store.add(many)
    assert "\n" not in e.value.message and e.value.exit_code == Exit.INFRASTRUCTURE
    # The slice that did not fit is not done, and nothing of it is in the file.
    assert (store.images(), store.done("/rec/stop")) == (1, {(0, 0)})
    with pytest.raises(InfraError, match="make room"):
        for n in range(10_000):
            store.add_boot((f"class {n}" * 20, "/rec/stop", 1, "none", "cold", "cold", 1, 1))
    store.scalar(f"PRAGMA max_page_count = {1 << 20}")
    store.add(many)
    assert (store.images(), store.done("/rec/stop")) == (1999, {(0, 0), (0, 1)})


def test_results_of_another_campaign_are_refused(store: Store) -> None:
    store.describe({"seed": "1"})
    store.describe({"seed": "1"})
    with pytest.raises(UsageError, match="another seed"):
        store.describe({"seed": "2"})


def test_mix_names_shares_that_are_too_small(store: Store) -> None:
    rows = [outcome(str(n), place="loader", near=n < 3) for n in range(8)]
    rows += [outcome(str(n), "resumed", place="running") for n in range(8, 10)]
    store.add(Judged(WORK, rows, 10, 10**9))
    shares = mix(store)
    assert (shares.near, shares.resumed, shares.cold) == (0.3, 0.2, 0.8)
    missing = " ".join(shares.missing())
    assert "stop-park" in missing
    assert "loader" not in missing
    assert "resumed" not in missing
    result = Result("campaign")
    count_mix(store, result)
    assert not result.ok
    assert result.figures["mix_missing"].value == len(shares.missing())


REFUSED = Broken("refused", "refused")
FOUND = Found("a", frozenset({"refused"}), (REFUSED,))


def test_figures_fail_with_a_violation_or_a_mutant_that_is_not_found(store: Store) -> None:
    store.add(Judged(WORK, [outcome("1")], 2, 10**9))
    assert count(store, [FOUND], []).ok
    missed = count(store, [replace(FOUND, broken=())], [])
    assert not missed.ok
    assert missed.figures["mutants_missed"].value == 1
    by_other = count(store, [replace(FOUND, expected=frozenset({"differs"}))], [])
    assert not by_other.ok
    assert by_other.figures["mutants_missed"].value == 0
    assert by_other.figures["found_by_other"].value == 1
    assert images_per_s(store) == 0
    store.add_elapsed(0.25)
    store.add_elapsed(0.25)
    assert images_per_s(store) == 2
    store.add(Judged(WORK, [outcome("2", {"violation": "refused"})], 1, 10**9))
    result = count(store, [FOUND], [])
    assert not result.ok
    assert result.figures["violations"].value == 1
    assert result.figures["made"].value == 1  # the slice was checked again


def test_violation_is_described_in_words() -> None:
    assert broken_text("cold") == ""
    assert broken_text({"violation": "refused"}) == "refused"
    assert broken_text({"violation": {"differs": {"lines": 2, "first": 64}}}) == (
        "differs (lines 2, first 64)"
    )


@pytest.mark.parametrize("needed", [[], [5], [3, 64], list(range(10)), [99]])
def test_shrinking_keeps_only_needed_lines(needed: list[int]) -> None:
    tries = 0

    def breaks(lines: list[int]) -> bool:
        nonlocal tries
        tries += 1
        return set(needed) <= set(lines)

    assert shrunk(list(range(100)), breaks, tries=1000) == needed
    assert tries < 400


def test_shrinking_ends_when_nothing_can_be_left_out() -> None:
    assert len(shrunk(list(range(100)), lambda lines: len(lines) == 100, tries=30)) == 100


def test_command_is_one_line_to_paste() -> None:
    assert as_eviction([64, 4096]) == "0x40,0x1000"
    assert command(Path("/r"), 5, "none") == "./rem replay /r --cut 5"
    assert command(Path("/r"), 5, "0x40") == "./rem replay /r --cut 5 --evict 0x40"


def test_every_mutant_has_its_turn() -> None:
    names = [f"m{n}" for n in range(12)]
    seen = {name for commit in range(200) for name in rotation(names, str(commit), 5)}
    assert seen == set(names)
    assert rotation(names, "abc", 5) == rotation(names, "abc", 5)
    assert len(rotation(names, "abc", 5)) == 5


def test_bug_that_needs_a_machine_has_it() -> None:
    assert caches_of("report-unwritten", "wsp-d510") == "wsp-x5650-none"
    assert caches_of("skip-flush", "wsp-d510") == "wsp-d510"


def test_page_has_a_command_for_each_cell(store: Store) -> None:
    store.add(Judged(WORK, [outcome("1"), outcome("2", "resumed", place="loader")], 2, 10**9))
    broken = [{"broken": "refused <b>", "place": "loader", "command": "./rem replay /r --cut 5"}]
    html = page(store, count(store, [], []), broken)
    assert html.count("data-command=") == 2
    assert "./rem replay /rec/stop --cut 7" in html
    assert "refused &lt;b&gt;" in html
    assert "http" not in html  # nothing is fetched


def test_boots_are_counted(store: Store) -> None:
    store.add(Judged(WORK, [outcome("1")], 1, 10**9))
    for cut in (1, 2, 2):  # the second again, after the campaign was killed
        store.add_boot(("c", "/rec/stop", cut, "none", "resume 1", "resume 1", True, 0))
    good = Booted(booted=40, whole=40, disagreements=(), classes_unbooted=1, cpu_s=400.0)
    result = count(store, [], [good])
    assert result.ok
    assert result.figures["booted"].value == 2
    assert result.figures["booted_whole"].value == 40
    assert result.figures["classes_unbooted"].value == 1
    assert result.figures["vs_reboot_replay"].value == 10.0
    assert "vs_reboot_replay" not in count(store, [], [replace(good, whole=29)]).figures


def test_disagreement_is_red_in_whichever_session_it_was_seen(store: Store) -> None:
    store.add(Judged(WORK, [outcome("1")], 1, 10**9))
    store.add_boot(("c", "/rec/stop", 1, "none", "resume 1", "decided otherwise", False, 0))
    result = count(store, [], [])
    assert not result.ok
    assert result.figures["disagreements"].value == 1


class NoMachine:
    """In place of the machine that boots images."""

    def __enter__(self) -> NoMachine:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to do."""


def test_boots_to_the_end_come_first_and_a_wrong_decision_is_reported(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [outcome(str(n), event=n, **{"class": f"c{n}"}) for n in range(6)]
    work = replace(WORK, recording=str(tmp_path))
    store.add(Judged(work, rows, 6, 10**9))
    standard().write(tmp_path)
    ways: list[str] = []
    monkeypatch.setattr(boots, "boot_machine", lambda *_: NoMachine())
    monkeypatch.setattr(boots, "boot", lambda *_: ways.append("whole") or "")
    monkeypatch.setattr(boots, "decide", lambda *_: ways.append("decision") or "decided otherwise")
    plan = boots.BootPlan(images=5, whole=2)
    done = boots.boot_all(tmp_path, store, tmp_path, "none", plan)
    assert ways == ["whole", "whole", "decision", "decision", "decision"]
    assert (done.booted, done.whole, len(done.disagreements)) == (5, 2, 3)
    assert done.classes_unbooted == 4  # classes whose disk and guest were not checked
    assert not count(store, [], [done]).ok


def test_machines_that_boot_at_once_answer_in_the_order_of_the_images() -> None:
    images = [boots.Image("/r", n, "none", "resume", 1, "c", "loader") for n in range(9)]
    both = threading.Barrier(2)  # breaks if one boots after the other

    def way(_machine: object, image: boots.Image) -> str:
        if image.event < 2:
            both.wait(60)
        return f"wrong with {image.event}"

    machines: list[Any] = [NoMachine(), NoMachine()]
    found_wrong = list(boots.at_once(machines, images, way))
    assert found_wrong == [(image, f"wrong with {image.event}") for image in images]


def test_soak_boots_each_class_and_a_hundredth_of_the_resumed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [outcome(f"r{n}", "resumed", event=n, **{"class": "go"}) for n in range(101)]
    rows += [outcome(f"c{n}", event=200 + n, **{"class": f"c{n}"}) for n in range(4)]
    store.add(Judged(WORK, rows, len(rows), 10**9))
    assert boots.soak_counts(store, "/rec/stop") == (5, 2)
    store.add_boot(("other", "/rec/go", 1, "none", "x", "x", True, 0))
    monkeypatch.setattr(boots, "CLASSES_MAX", 4)
    assert boots.soak_counts(store, "/rec/stop") == (3, 2)


def test_loaders_decision_is_compared_with_the_engines() -> None:
    image = boots.Image("/r", 1, "none", "resume", 4, "c", "loader")
    note = BootNote(
        reason="RESUME", sequence=4, slot=0, expected=None, found=None,
        entry_tsc=1, ready_tsc=1, leave_tsc=1, charge=1, held=None,
    )  # fmt: skip

    def found_wrong(note: BootNote) -> str:
        return boots.wrong_decision(note, image)

    assert found_wrong(note) == ""
    assert "entered 5" in found_wrong(replace(note, sequence=5))
    assert "decided already-consumed" in found_wrong(replace(note, reason="COLD_ALREADY_CONSUMED"))


def test_kinds_that_are_missing_have_rounds_of_their_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    works: list[Work] = []

    def judge_into(_client: object, into: Store, round_: list[Work]) -> Iterator[None]:
        works.extend(round_)
        new = range(len(works) * 10, len(works) * 10 + 10)
        into.add(Judged(round_[0], [outcome(str(n)) for n in new], 10, 10**9))
        yield

    monkeypatch.setattr(runner, "cluster", lambda _: nullcontext(None))
    monkeypatch.setattr(runner, "judge_into", judge_into)
    monkeypatch.setattr(runner, "CUTS_OF_A_SLICE", 10)
    monkeypatch.setattr(runner, "MIX_CUTS_OF_A_SLICE", 2)
    runner.run(runner.Plan(Path("e/e"), (Path("/rec/stop"),), images=15, seed=1), store)
    only = [work.only for work in works if work.slice == 0]
    kinds = figures.mix(store).kinds()
    assert "enterable" in kinds and "running" not in kinds
    assert only == [(), (), *[kinds] * (runner.MIX_ROUNDS - 2)]
    assert {work.cuts // work.slices for work in works} == {10, 2}


def test_rarest_class_is_booted_first(store: Store) -> None:
    rows = [outcome(str(n), **{"class": "often"}) for n in range(9)]
    rows += [outcome("x", "resumed", event=3, **{"class": "seldom"})]
    store.add(Judged(WORK, rows, 10, 10**9))
    chosen = choose(store, "/rec/stop", 4)
    assert [image.kind for image in chosen[:2]] == ["seldom", "often"]
    assert len({image.eviction + str(image.event) for image in chosen}) == len(chosen)


def test_each_place_and_decision_is_booted_before_a_second_of_one(store: Store) -> None:
    rows = [outcome(f"r{n}", event=n, **{"class": f"running-{n}"}) for n in range(9)]
    rows += [outcome("s", event=20, place="stop-commit", **{"class": "stop"})]
    rows += [outcome("g", "resumed", event=30, place="loader", reason="resume", **{"class": "go"})]
    store.add(Judged(WORK, rows, 11, 10**9))
    chosen = choose(store, "/rec/stop", 4)
    assert sorted(image.place for image in chosen) == [
        "loader",
        "running",
        "running",
        "stop-commit",
    ]
    assert [image.kind for image in choose(store, "/rec/stop", 4)] == [i.kind for i in chosen]


def test_cycle_that_is_checked_again_is_removed_first(store: Store) -> None:
    store.add(Judged(WORK, [outcome("1"), outcome("2")], 2, 10**9))
    assert store.images() == 2
    store.forget("/rec/stop")
    assert store.images() == 0
    assert store.done("/rec/stop") == set()
    store.replace_fact("cycles", "1")
    store.replace_fact("cycles", "2")
    assert store.scalar("SELECT value FROM campaign WHERE name = 'cycles'") == "2"


def test_mutant_is_found_only_by_an_expected_verdict() -> None:
    differs = Broken("differs", "differs (lines 2)")
    assert FOUND.by_expected == REFUSED
    assert not FOUND.missed
    assert not FOUND.found_by_other
    other = replace(FOUND, broken=(differs,))
    assert other.by_expected is None
    assert other.found_by_other
    assert not other.missed
    assert str(other) == "FOUND BY OTHER: want refused, got differs"
    assert replace(FOUND, broken=(differs, REFUSED)).by_expected == REFUSED
    assert replace(FOUND, broken=()).missed
    assert not replace(FOUND, broken=()).found_by_other
    assert str(replace(FOUND, broken=())) == "MISSED"
    assert replace(FOUND, expected=frozenset(), broken=(differs,)).by_expected == differs


def test_there_are_enough_planted_bugs_and_any_five_are_of_several_kinds() -> None:
    names = machine_mutants()
    assert len(names) == len(set(names)) >= 15
    assert set(names) == set(patches())
    for commit in range(60):
        five = rotation(names, str(commit), 5)
        assert len({kind_of(patches()[name]) for name in five}) >= 2


def test_mutants_of_the_machine_are_chosen_by_name() -> None:
    assert len(chosen_mutants(PLAN)) == 5
    assert chosen_mutants(replace(PLAN, mutants="all")) == machine_mutants()
    assert chosen_mutants(replace(PLAN, mutants="skip-flush")) == ["skip-flush"]
    with pytest.raises(UsageError, match="choose all"):
        chosen_mutants(replace(PLAN, mutants="none-such"))


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """The recordings of campaigns, which check nothing and plant no bug."""
    made: list[Recorded] = []

    def record(what: Recorded) -> None:
        what.directory.mkdir(parents=True)
        what.load.write(what.directory)
        made.append(what)

    nothing: dict[str, Callable[..., Any]] = {
        "need": lambda _: Path("engine"),
        "free_enough": lambda _: None,
        "record": record,
        "_check": lambda *_: [],
        "_soak": lambda *_: pytest.fail("no soak was requested"),
    }
    for name, instead in nothing.items():
        monkeypatch.setattr(f"lab.campaign.command.{name}", instead)
    for name in ("run_model", "run_machine"):
        monkeypatch.setattr(f"lab.campaign.mutants.{name}", lambda *_: [])
    monkeypatch.setenv("REM_STATE", str(tmp_path))
    return made


def test_workload_may_have_any_name(recorded: list[Recorded]) -> None:
    run(replace(PLAN, load=Workload(("/bin/soak",), ("/bin/true",))))
    assert [what.directory.name for what in recorded] == ["soak-1"]


def test_firmware_is_that_of_each_machine(
    recorded: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    boards: list[Board] = []

    def run_machine(*words: Any) -> list[Found]:
        boards.append(words[-1])
        return []

    monkeypatch.setattr("lab.campaign.mutants.run_machine", run_machine)
    run(replace(PLAN, firmware="uefi"))
    run(PLAN)
    assert [what.firmware for what in recorded] == ["uefi", "direct"]
    assert [what.directory.name for what in recorded] == ["run-uefi-1", "run-1"]
    assert [board.firmware for board in boards] == ["uefi", "direct"]
    machine = with_bug(Path("folder"), "consume-older", Board(firmware="uefi"))
    assert (machine.firmware, machine.loader_mutant) == ("uefi", "consume-older")


def test_run_of_another_workload_is_not_reused(recorded: list[Recorded]) -> None:
    """Names of recordings are short: two workloads may have the same."""
    for words in (("/bin/load", "a"), ("/bin/load", "a")):
        run(replace(PLAN, load=Workload(words, ("/bin/true",))))
    assert len(recorded) == 1
    with pytest.raises(UsageError, match=r"load-a-1 is a run of another workload \(/bin/load a,"):
        run(replace(PLAN, load=Workload(("/other/load", "a"), ("/bin/true",))))


def test_soak_of_another_build_is_not_continued(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {name: tmp_path / "1" / name for name in ("kernel", "loader", "plugin", "engine")}

    def need(*_: object) -> tuple[KernelProduct, Path, Path]:
        kernel = KernelProduct(made["kernel"], made["kernel"], "6.12", "1")
        return kernel, made["loader"], made["plugin"]

    monkeypatch.setattr(chain, "need", need)
    soak = chain.Soak(made["engine"], tmp_path, 0, seed=1, limit_s=1, boots=None, whole=2)
    assert chain.run(soak, store) == []
    assert chain.run(soak, store) == []
    for part in made:
        before = made[part]
        made[part] = tmp_path / "2" / part
        with pytest.raises(UsageError, match="another build"):
            chain.run(replace(soak, engine=made["engine"]), store)
        made[part] = before
    with pytest.raises(UsageError, match="another caches"):
        chain.run(replace(soak, profile="lightpc"), store)
    with pytest.raises(UsageError, match="another firmware"):
        chain.run(replace(soak, firmware="uefi"), store)


def test_unseen_lines_are_counted_once_for_each_run_and_fail(store: Store) -> None:
    assert count(store, [], []).figures["unseen_lines"].value == 0
    other = replace(WORK, recording="/rec/go")
    for work, lines in ((WORK, 3), (WORK, 2), (other, 1)):
        verdict = {"violation": {"unseen": {"lines": lines, "first": 4096}}}
        store.add(Judged(work, [outcome(f"{lines}", verdict)], 1, 10**9))
    result = count(store, [], [])
    assert result.figures["unseen_lines"].value == 4
    assert not result.ok


@pytest.mark.parametrize("stopped", [True, False])
def test_run_whose_stop_hangs_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    """Each image of such a run is a right cold boot."""
    for name in ("_newest", "_wait_armed", "_window"):
        monkeypatch.setattr(record, name, lambda *_: 1)
    monkeypatch.setattr(record.workload, "wait_printed", lambda *_: None)
    monkeypatch.setattr(record, "RUN_S", 0.0)
    log, console = tmp_path / "log", tmp_path / "console"
    log.touch()
    console.touch()
    (tmp_path / "run").mkdir()
    machine: Any = SimpleNamespace(
        boot=lambda **_: None,
        boots=1,
        cut=lambda **_: SimpleNamespace(stopped=stopped),
        files=SimpleNamespace(disk_parts=SimpleNamespace(log=log), console_log=lambda _: console),
        qemu=SimpleNamespace(qmp=SimpleNamespace(execute=lambda _: None)),
    )
    control: Any = SimpleNamespace(wait_ready=lambda: None, window=lambda _: None)
    recorded = Recorded(tmp_path / "run", "r")
    if stopped:
        record._cycle(machine, control, recorded)
        return
    with pytest.raises(BrokenError, match="the Stop has not ended") as caught:
        record._cycle(machine, control, recorded)
    assert caught.value.verdict == "stop-hangs"
