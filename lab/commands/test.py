# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem test`: linters and tests of every language."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lab.checks.testrun import TestRun


def register(app: typer.Typer) -> None:
    @app.command(context_settings={"ignore_unknown_options": True})
    def test(
        words: list[str] = typer.Argument(None, help="Passed to pytest: then only it runs."),
        tier: str = typer.Option("full", help="quick (minutes), full (as CI) or soak (hours)."),
        without: list[str] = typer.Option([], metavar="SHARE", help="Leave this share out."),
        as_json: bool = typer.Option(False, "--json", help="Last line of stdout: one object."),
    ) -> None:
        """Set up what is missing, then run linters and tests of every language.

        Exit status 1 when something failed, 3 when the budget of time was exceeded.
        """
        from lab.checks.testrun import Tier, run_tier
        from lab.errors import UsageError

        if tier not in list(Tier):
            raise UsageError(f"--tier {tier}: choose one of {', '.join(Tier)}")
        done = run_tier(Tier(tier), words or [], without)
        _print_summary(done)
        if as_json:
            _emit(done)
        raise typer.Exit(done.exit_code())


def _print_summary(done: TestRun) -> None:
    """Print times and failures; the runners' own last lines come last, as CI reads them."""
    from lab.checks.shares import BUDGET_MINUTES, SET_UP_MINUTES, SHARES
    from lab.messages import info

    limits = {"set-up": SET_UP_MINUTES} | {share.name: share.limit_minutes for share in SHARES}
    for name, minutes in done.minutes.items():
        limit = f" (share: {limits[name]} min)" if name in limits else ""
        info(f"{minutes:7.2f} min  {name}{limit}")
    info(f"{done.total_minutes:7.2f} min  in all ({done.tier} tier)")
    info(f"{done.total_minutes - done.set_up_minutes:7.2f} min  without set-up")
    for file, minutes in done.longest:
        info(f"{minutes:7.2f} min  of a worker: {file}")
    for name in done.left_out:
        info(f"left to other commits, as it would not end in time: {name}")
    for product in done.made_by_tests:
        info(f"made by a test, not by set-up: {product}")
    if done.over_budget():
        info(f"over the budget of {BUDGET_MINUTES} min")
    info(f"failed: {', '.join(done.failed)}" if done.failed else "all passed")
    for line in done.last_lines:
        info(line)


def _emit(done: TestRun) -> None:
    from lab.errors import Exit
    from lab.result import Result

    result = Result("test", ok=done.exit_code() == Exit.PASS)
    result.add("set_up_minutes", round(done.set_up_minutes, 2), "min", "native")
    result.add("minutes", round(done.total_minutes - done.set_up_minutes, 2), "min", "native")
    result.add("files_left_out", len(done.left_out), "files", "counted")
    for name, number in done.counts.items():  # of pytest's tests
        result.add(name, number, "tests", "counted")
    result.add("failed_shares", len(done.failed), "1", "counted")
    result.emit()
