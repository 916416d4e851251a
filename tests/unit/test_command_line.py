# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Options as records, their checks, the first page, and completion: all from the one parser."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from lab import cli
from lab.campaign.command import chosen_mutants
from lab.campaign.mutants import machine_mutants
from lab.command_line.completion import SCRIPTS, Place, places
from lab.command_line.options import takes
from lab.command_line.welcome import FIRST_COMMANDS, PAGES, welcome_page
from lab.commands import campaign, cut, demo, inspect, run
from lab.errors import Exit, UsageError
from lab.machine.cut_plan import CutPlan
from lab.machine.places import Place as StopPlace
from lab.paths import repo_dir


@dataclass(frozen=True)
class Inner:
    count: Annotated[int, typer.Option(help="A number.")] = 3
    tag: Annotated[list[str], typer.Option(help="A tag.")] = field(default_factory=list)


@dataclass(frozen=True)
class Outer:
    what: Annotated[str, typer.Argument(help="A thing.")]
    inner: Inner = field(default_factory=Inner)
    loud: Annotated[bool, typer.Option("--loud")] = False


def parse(*argv: str) -> Outer:
    seen: list[Outer] = []

    @takes(Outer)
    def command(words: Outer) -> int:
        seen.append(words)
        return 0

    app = typer.Typer(add_completion=False)
    app.command()(command)
    typer.main.get_command(app).main(list(argv), standalone_mode=False)
    return seen[0]


def test_record_is_filled_with_the_words_of_its_groups() -> None:
    assert parse("x") == Outer("x")
    words = parse("x", "--count", "7", "--tag", "a", "--tag", "b", "--loud")
    assert words == Outer("x", Inner(7, ["a", "b"]), loud=True)
    assert parse("x") == Outer("x"), "defaults are not shared between commands"


def test_two_options_of_one_name_are_refused() -> None:
    @dataclass(frozen=True)
    class Twice:
        count: int = 1
        inner: Inner = field(default_factory=Inner)

    Twice.__annotations__ = {"count": int, "inner": Inner}
    with pytest.raises(TypeError, match="same name"):
        takes(Twice)(lambda words: 0)


def test_no_arguments_print_the_first_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == Exit.PASS
    out, err = capsys.readouterr()
    assert out == welcome_page() and err == ""
    assert all(len(line) <= 92 for line in out.splitlines()) and out.count("\n") <= 24
    assert len(FIRST_COMMANDS) == 5
    for command in FIRST_COMMANDS:
        name, *options = command.split()
        known = {word for one in cli.parser().commands[name].params for word in one.opts}
        assert known.issuperset(options) and f"./rem {command} " in out
    for path in PAGES:
        assert (repo_dir() / path).is_file() and path in out


@pytest.fixture(scope="module")
def every_place() -> list[Place]:
    return places(cli.parser())


def bash_words(line: list[str]) -> list[str]:
    """What bash offers when TAB is pressed behind the last word."""
    script = SCRIPTS["bash"](cli.parser())
    words = " ".join(shlex.quote(word) for word in line)
    script += f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _rem\n"
    script += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_offers_all_words_of_the_parser(every_place: list[Place]) -> None:
    by_path = {place.path: [choice.word for choice in place.choices] for place in every_place}
    assert "run" in by_path["rem"] and "--nvram-kind" in by_path["rem run"]
    for path in ("rem", "rem run", "rem bench", "rem bench stop-go", "rem completion"):
        assert sorted(bash_words([*path.split(), ""])) == sorted(by_path[path])
    assert bash_words(["rem", "run", "--nvram-k"]) == ["--nvram-kind"]
    assert bash_words(["rem", "run", "-d", "--dry"]) == ["--dry-run"]


def test_bash_leaves_values_to_the_shell() -> None:
    assert bash_words(["rem", "run", "--kernel", ""]) == []


# zsh's own functions, as far as the script uses them: options match only where "-" was typed.
ZSH_STUBS = """
compdef() { :; }
_files() { print FILES; }
_describe() {
    local dash=0; [[ $1 == -o ]] && { dash=1; shift; }
    (( dash )) && [[ $PREFIX != -* ]] && return 1
    local pair; for pair in "${(@P)2}"; do
        [[ ${pair%%:*} == $PREFIX* ]] && print -r -- ${pair%%:*}
    done
    return 0
}
"""


def zsh_words(line: list[str]) -> list[str]:
    """What zsh offers when TAB is pressed behind the last word."""
    words = " ".join(shlex.quote(word) for word in line)
    script = f"{ZSH_STUBS}{SCRIPTS['zsh'](cli.parser())}"
    script += f"words=({words}); CURRENT={len(line)}; PREFIX={shlex.quote(line[-1])}; _rem\n"
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def fish_words(line: list[str]) -> list[str]:
    """What fish offers when TAB is pressed behind the last word."""
    script = SCRIPTS["fish"](cli.parser()) + f"complete -C {shlex.quote(' '.join(line))}\n"
    done = subprocess.run(
        ["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True
    )
    return [offer.split("\t")[0] for offer in done.stdout.splitlines()]


@pytest.mark.parametrize("offered", [zsh_words, fish_words])
def test_other_shells_offer_commands_and_options(
    offered: Callable[[list[str]], list[str]], every_place: list[Place]
) -> None:
    by_path = {place.path: place.choices for place in every_place}
    for path in ("rem", "rem bench"):
        commands = {choice.word for choice in by_path[path] if not choice.is_option}
        assert commands <= set(offered([*path.split(), ""]))
    for path in ("rem run", "rem bench stop-go"):
        options = {choice.word for choice in by_path[path] if choice.word.startswith("--")}
        assert options <= set(offered([*path.split(), "--"]))
    assert offered(["rem", "comp"]) == ["completion"]
    assert offered(["rem", "run", "--nvram-k"]) == ["--nvram-kind"]
    assert "stop-go" not in offered(["rem", "st"])


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_script_has_every_command_and_option(
    shell: str, every_place: list[Place], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", shell]) == Exit.PASS
    script = capsys.readouterr().out
    for place in every_place:
        assert place.path in script
        for choice in place.choices:
            word = choice.word.lstrip("-") if shell == "fish" else choice.word
            assert word in script, f"{place.path} {choice.word}"


def test_unknown_shell_is_a_usage_error() -> None:
    assert cli.main(["completion", "powershell"]) == Exit.USAGE


WORDS = run.RunWords(products=run.ProductWords(kernel=Path("k")))


def test_run_plan_names_missing_products() -> None:
    plan = run.check(run.RunWords())
    assert plan.missing == {"kernel", "loader", "root"} and plan.with_plugin and plan.config.icount
    plan = run.check(WORDS)
    assert plan.missing == {"loader", "root"} and plan.config.kernel == Path("k")
    assert plan.caches is None, "the plugin needs the kernel's System.map"
    products = run.ProductWords(kernel=Path("k"), initrd=Path("i"), no_loader=True)
    plan = run.check(replace(WORDS, products=products))
    assert plan.missing == set() and plan.config.loader is None and plan.config.root is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (replace(WORDS, memory=run.MemoryWords(memtype="rom")), "--memtype rom"),
        (replace(WORDS, memory=run.MemoryWords(nvram="much")), "--nvram"),
        (replace(WORDS, devices=run.DeviceWords(disk="floppy")), "--disk floppy"),
        (replace(WORDS, devices=run.DeviceWords(forward=["1"])), "--forward 1"),
        (replace(WORDS, time=run.TimeWords(stop_mode="slow")), "--stop-mode slow"),
        (replace(WORDS, products=run.ProductWords(disk_image=Path("none"))), "no such file"),
        (
            replace(WORDS, products=run.ProductWords(disk_image=Path("d"), append="quiet")),
            "leave --append out",
        ),
        (
            run.RunWords(
                products=run.ProductWords(disk_image=Path("d")),
                guest=run.GuestWords(packages="nginx"),
            ),
            "leave --packages out",
        ),
        (replace(WORDS, time=run.TimeWords(caches="l9")), "--caches l9"),
        (replace(WORDS, time=run.TimeWords(cut_points=True, plugin="p")), "--cut-points needs"),
        (
            run.RunWords(
                time=run.TimeWords(caches="wsp-c5528"), products=run.ProductWords(no_loader=True)
            ),
            "--caches needs",
        ),
    ],
)
def test_wrong_words_of_run_are_refused_before_anything_is_built(
    words: run.RunWords, message: str
) -> None:
    with pytest.raises(UsageError) as error:
        run.check(words)
    assert message in error.value.message


def test_disk_that_boots_by_itself_needs_firmware_and_no_root(tmp_path: Path) -> None:
    disk = tmp_path / "server.img"
    disk.touch()
    plan = run.check(replace(WORDS, products=run.ProductWords(disk_image=disk)))
    assert plan.boots_from_root
    assert plan.config.root == disk
    assert "uefi" in plan.missing
    assert "root" not in plan.missing
    assert plan.caches is None

    for time in (run.TimeWords(icount=True), run.TimeWords(cut_points=True)):
        words = replace(WORDS, time=time, products=run.ProductWords(disk_image=disk))
        with pytest.raises(UsageError, match="--disk-image: no --icount, no --cut-points"):
            run.check(words)


def test_uefi_has_caches_where_they_are_named() -> None:
    uefi = run.ProductWords(firmware="uefi")
    plain = run.check(replace(WORDS, products=uefi))
    assert (plain.caches, plain.with_plugin, plain.config.icount) == (None, False, False)
    words = replace(WORDS, products=uefi, time=run.TimeWords(caches="wsp-d510"))
    plan = run.check(words)
    assert (plan.caches, plan.with_plugin, plan.config.icount) == ("wsp-d510", True, True)
    assert "uefi" in plan.missing


def test_words_become_a_cut_plan() -> None:
    assert cut.check(cut.CutWords()) == CutPlan()
    assert cut.check(cut.CutWords(immediate=True)) == CutPlan(announced=False)
    assert cut.check(cut.CutWords(hold_up="17ms")) == CutPlan(hold_up_ns=17_000_000)
    plan = cut.check(cut.CutWords(at="commit+300", no_flush="data"))
    assert plan == CutPlan(place=StopPlace("commit", 300), no_flush="data")
    assert plan.ends_at == "commit+300" and CutPlan(at_store=4).ends_at == "store 4"


@pytest.mark.parametrize(
    "words",
    [
        cut.CutWords(at_store=1, immediate=True),
        cut.CutWords(at_store=1, at="commit"),
        cut.CutWords(no_flush="all", immediate=True),
        cut.CutWords(at="commit", hold_up="1ms"),
        cut.CutWords(at="commit", immediate=True),
        cut.CutWords(at="nowhere"),
        cut.CutWords(hold_up="-1ms"),
    ],
)
def test_contradicting_words_of_cut_are_refused(words: cut.CutWords) -> None:
    with pytest.raises(UsageError):
        cut.check(words)


@pytest.mark.parametrize(
    "plan",
    [CutPlan(), CutPlan(announced=False), CutPlan(place=StopPlace("park", 5), supply="s")],
)
def test_cut_plan_reaches_the_supervisor_unchanged(plan: CutPlan) -> None:
    message: dict[str, Any] = {"op": "cut", **plan.to_message()}
    assert CutPlan.from_message(message) == plan


def test_impossible_cut_plans_cannot_be_made() -> None:
    for wrong in (
        {"announced": False, "at_store": 1},
        {"announced": False, "no_flush": "all"},
        {"place": StopPlace("park", 0), "at_store": 1},
    ):
        with pytest.raises(UsageError):
            CutPlan(**wrong)


def test_each_kind_of_demonstration_has_its_own_page() -> None:
    words = demo.DemoWords(caches="wsp-c5528")
    kinds = [None, "data", "all"]
    pages = {demo.check(replace(words, no_flush=kind)).page for kind in kinds}
    assert len(pages) == len(kinds)
    assert demo.check(replace(words, page=Path("mine.html"))).page == Path("mine.html")


@pytest.mark.parametrize(
    "words",
    [
        demo.DemoWords(clients=0),
        demo.DemoWords(writes=0),
        demo.DemoWords(off=-1),
        demo.DemoWords(stop="slow"),
        demo.DemoWords(no_flush="some"),
        demo.DemoWords(no_flush="data", caches="off"),
        demo.DemoWords(picture=Path("mine.txt")),
    ],
)
def test_wrong_words_of_demo_are_refused(words: demo.DemoWords) -> None:
    with pytest.raises(UsageError):
        demo.check(words)


def test_inspect_has_one_source() -> None:
    assert inspect.check(inspect.InspectWords()).machine == "default"
    assert inspect.check(inspect.InspectWords(file=Path("f"))).machine is None
    for wrong in (
        inspect.InspectWords(name="m", file=Path("f")),
        inspect.InspectWords(name="m", recording=Path("r"), cut=1),
        inspect.InspectWords(recording=Path("r")),
        inspect.InspectWords(at_cut=Path("f")),
    ):
        with pytest.raises(UsageError):
            inspect.check(wrong)


def campaign_words(**groups: Any) -> campaign.CampaignWords:
    return campaign.CampaignWords(context=None, **groups)  # type: ignore[arg-type]


def test_campaign_plan_follows_its_tier() -> None:
    full = campaign.check(campaign_words())
    assert (full.images, full.mutants, full.soak, full.limit_s) == (2_000, "five", False, None)
    soak = campaign.check(campaign_words(amount=campaign.AmountWords(tier="soak")))
    assert (soak.images, soak.mutants, soak.soak) == (1_000_000, "all", True)
    assert soak.limit_s == campaign.SOAK_MINUTES * 60
    model = campaign.check(campaign_words(source=campaign.SourceWords(model=True)))
    assert model.model and model.mutants == "none"


def test_campaign_of_fsync_has_bugs_of_its_own() -> None:
    plan = campaign.check(campaign_words(machine=campaign.MachineWords(persist="memory")))
    assert plan.persist
    assert plan.mutants == "all"
    assert plan.load is None
    assert "run-persist" in plan.name
    assert "fsync-no-flush" in chosen_mutants(plan)
    assert not set(chosen_mutants(plan)) & set(machine_mutants())


def test_campaign_through_uefi_is_one_of_its_own() -> None:
    def planned(**machine: str) -> tuple[str, str, str]:
        plan = campaign.check(campaign_words(machine=campaign.MachineWords(**machine)))
        return plan.firmware, plan.name, plan.mutants

    assert planned() == ("direct", "run", "five")
    assert planned(firmware="uefi") == ("uefi", "run-uefi", "five")
    assert planned(firmware="uefi", caches="lightpc")[1] == "run-uefi-lightpc"
    machine = campaign.MachineWords(firmware="uefi")
    words = campaign_words(machine=machine, amount=campaign.AmountWords(tier="soak"))
    soak = campaign.check(words)
    assert (soak.soak, soak.soak_name) == (True, "soak-uefi")
    plan = replace(soak, firmware="direct")
    assert plan.soak_name == "soak"


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ({"machine": campaign.MachineWords(firmware="bios")}, "choose direct or uefi"),
        ({"machine": campaign.MachineWords(firmware="uefi-secure")}, "choose direct or uefi"),
        (
            {"machine": campaign.MachineWords(firmware="uefi", arch="riscv64")},
            "not with --arch riscv64",
        ),
        (
            {"machine": campaign.MachineWords(firmware="uefi", memtype="mixed")},
            "not with --memtype mixed",
        ),
        (
            {"machine": campaign.MachineWords(firmware="uefi", persist="memory")},
            "not with --persist memory",
        ),
        (
            {
                "machine": campaign.MachineWords(firmware="uefi"),
                "source": campaign.SourceWords(model=True),
            },
            "not with --model",
        ),
    ],
)
def test_campaign_that_uefi_cannot_boot_is_refused_by_one_line(
    groups: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError) as error:
        campaign.check(campaign_words(**groups))
    assert why in error.value.message and "\n" not in error.value.message


def test_recording_has_its_own_firmware(tmp_path: Path) -> None:
    for name in ("recording.bin", "base.media"):
        (tmp_path / name).touch()
    source = campaign.SourceWords(recording=[tmp_path])
    with pytest.raises(UsageError, match="not with --recording"):
        campaign.check(
            campaign_words(source=source, machine=campaign.MachineWords(firmware="uefi"))
        )


def test_campaign_plants_no_bugs_where_caches_survive() -> None:
    def planned(caches: str) -> tuple[str, str]:
        machine = campaign.MachineWords(caches=caches)
        plan = campaign.check(campaign_words(machine=machine))
        return plan.profile, plan.mutants

    assert planned("wsp-x5650-none") == ("wsp-x5650-none", "five")
    assert planned("server-eadr") == ("server-eadr", "none")


@pytest.mark.parametrize(
    "groups",
    [
        {"amount": campaign.AmountWords(tier="short")},
        {"source": campaign.SourceWords(recording=[Path("nowhere")])},
        {"machine": campaign.MachineWords(workload="sh")},
        {"machine": campaign.MachineWords(disk_cache="lost")},
        {"machine": campaign.MachineWords(caches="off")},
        {"machine": campaign.MachineWords(persist="ram")},
        {"machine": campaign.MachineWords(persist="memory", memtype="mixed")},
        {"machine": campaign.MachineWords(persist="memory", workload="true", check="true")},
        {
            "machine": campaign.MachineWords(persist="memory"),
            "amount": campaign.AmountWords(tier="soak"),
        },
        {
            "machine": campaign.MachineWords(caches="server-eadr"),
            "amount": campaign.AmountWords(mutants="all"),
        },
        {
            "machine": campaign.MachineWords(caches="wsp-x5650-none"),
            "source": campaign.SourceWords(model=True),
        },
    ],
)
def test_wrong_words_of_campaign_are_refused(groups: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        campaign.check(campaign_words(**groups))
