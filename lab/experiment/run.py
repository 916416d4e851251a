# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Find an experiment, run it, keep its raw results, and draw them beside the paper's.

A folder experiments/ID has
    README.md      question, method, what differs from the paper
    paper.toml     the paper's title, source, the [values] of its set-up, and its [expected] results
    experiment.py  measure(it) -> raw, judge(raw, paper, report), draw(raw, paper, figure)

Figures and pictures are functions of the raw results alone, which are kept as JSON, below what they
depend on (lab/experiment/origin.py): `--redraw` repeats them without measuring.
"""

from __future__ import annotations

import importlib.util
import json
import textwrap
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from lab.errors import InfraError, UsageError
from lab.experiment.expected import Values
from lab.experiment.origin import Origin
from lab.messages import info
from lab.paths import repo_dir
from lab.power.model import PowerModel
from lab.progress import step
from lab.result import Result
from lab.setup.cache import recorded_products

TIERS = ("ci", "full")
TITLE_COLUMNS = 130
LISTED_MAX = 6  # deviations whose names fit above a picture
PROVISIONAL = "provisional timing: no memory controller is modelled yet"
# Figures of the comparison itself.
ACCEPTED = "accepted deviation, "
COUNTS = ("paper_values_held", "deviations_accepted", "deviations_not_accepted")


def folder(repo: Path | None = None) -> Path:
    """Of this checkout, or of another."""
    return (repo or repo_dir()) / "experiments"


def results_folder(name: str, repo: Path | None = None) -> Path:
    """Where an experiment leaves raw results and pictures, unless `--out` names another place."""
    return (repo or repo_dir()) / "report" / "experiments" / name


def names(repo: Path | None = None) -> list[str]:
    return sorted(path.parent.name for path in folder(repo).glob("*/experiment.py"))


@dataclass(frozen=True)
class Paper:
    """paper.toml."""

    title: str
    source: str
    values: dict[str, Any]
    results: Values
    provisional: bool = False  # times depend on a model that will be replaced

    @staticmethod
    def read(path: Path) -> Paper:
        try:
            raw = tomllib.loads(path.read_text(encoding="utf-8"))
            tables = (raw.pop(name, []) for name in ("accepted", "unobtainable"))
            results = Values.of(raw.pop("expected", {}), *tables)
            paper = Paper(**raw, results=results)
            if not (isinstance(paper.title, str) and isinstance(paper.source, str)):
                raise TypeError("title and source are texts")
            if not isinstance(paper.values, dict):
                raise TypeError("values is a table")
            return paper
        except InfraError as error:
            raise InfraError(f"{path}: {error.message}") from error
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise InfraError(f"{path} does not describe a paper: {error}") from error


@dataclass
class Context:
    """What an experiment may use."""

    tier: str
    seed: int
    out: Path
    model: PowerModel
    code: str = ""  # the key of the code that is measured, where docs/figures.toml names it
    products: frozenset[str] = frozenset()  # of set-up, that the model needed

    @staticmethod
    def ready(tier: str, seed: int, out: Path, code: str) -> Context:
        """With the power model, built if necessary."""
        with recorded_products() as products:
            model = PowerModel.ready()
        return Context(tier, seed, out, model, code, frozenset(products))

    @property
    def is_ci(self) -> bool:
        return self.tier == "ci"


@dataclass
class Report:
    """Figures, and expectations of the paper that failed."""

    result: Result
    failed: list[str] = field(default_factory=list)
    say: Callable[[str], None] = info  # prints a line about it

    def add(self, name: str, value: float | int | str | bool, unit: str) -> None:
        self.result.add(name, value, unit, "modelled")

    def count(self, name: str, value: int, unit: str) -> None:
        self.result.add(name, value, unit, "counted")

    def expect(self, what: str, holds: bool) -> None:
        """A statement of the paper that must hold here, too."""
        self.say(f"  {'holds' if holds else 'DOES NOT HOLD'}: {what}")
        if not holds:
            self.failed.append(what)
            self.result.ok = False

    def compare(self, results: Values, is_full: bool) -> list[str]:
        """Compare the figures so far with the paper's values. Deviations that are accepted become
        figures, too, and are returned."""
        ours = {name: figure.value for name, figure in self.result.figures.items()}
        compared = results.compare(ours, is_full)
        for name, line in compared.accepted.items():
            self.say(f"  accepted: {name} is {line}")
            kind = self.result.figures[name].kind
            self.result.add(f"{ACCEPTED}{name}", line, "", kind)
        for line in compared.failed.values():
            self.expect(line, False)
        parts = (compared.held, compared.accepted, compared.failed)
        for name, part in zip(COUNTS, parts, strict=True):
            self.count(name, len(part), "values")
        return list(compared.accepted)


@dataclass(frozen=True)
class Experiment:
    name: str
    paper: Paper
    module: ModuleType

    @staticmethod
    def load(name: str, repo: Path | None = None) -> Experiment:
        if name not in names(repo):
            raise UsageError(f"no experiment {name!r}: choose one of {', '.join(names(repo))}")
        here = folder(repo) / name
        spec = importlib.util.spec_from_file_location(
            f"experiment_{name.replace('-', '_')}", here / "experiment.py"
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return Experiment(name, Paper.read(here / "paper.toml"), module)

    def run(self, it: Context, redraw: Path | None = None) -> Result:
        """Measure (or read kept results), judge, draw."""
        it.out.mkdir(parents=True, exist_ok=True)
        info(f"{self.name}: {self.paper.title} ({self.paper.source})")
        if redraw is None:
            raw, tier = self._measure(it), it.tier
        else:
            raw, tier = self.read(redraw)
        report = Report(Result(f"experiment-{self.name}"))
        accepted = self.judge(raw, tier, report)
        self._draw(raw, it.out, accepted)
        return report.result

    def _measure(self, it: Context) -> Any:
        """Measure, and keep the raw results with all that they depend on."""
        origin = Origin.now(it.code, it.tier, it.seed, self.paper.values)
        with step(f"{self.name}: measure"), recorded_products() as products:
            raw = self.module.measure(it)
        kept = {"experiment": self.name, **origin.header(products | it.products), "raw": raw}
        new = it.out / "raw.json.new"
        new.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        new.replace(it.out / "raw.json")
        return raw

    def judge(self, raw: Any, tier: str, report: Report) -> list[str]:
        """Put figures of raw results into *report*; return the deviations that are accepted."""
        if self.paper.provisional:
            report.add("timing", PROVISIONAL, "")
        self.module.judge(raw, self.paper.values, report)
        return report.compare(self.paper.results, tier == "full")

    def read(self, path: Path) -> tuple[Any, str]:
        """Raw results that were kept, and the tier that measured them."""
        kept = self._kept(path)
        return kept["raw"], str(kept["tier"])

    def _kept(self, path: Path) -> dict[str, Any]:
        """raw.json, with raw results of this experiment and their tier."""
        try:
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            name, _, _ = kept["experiment"], kept["raw"], kept["tier"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"--redraw {path}: no raw results: {error}") from error
        if name != self.name:
            raise UsageError(f"--redraw {path}: results of {name}, not of {self.name}")
        return kept

    def origin(self, path: Path) -> tuple[str, str, int]:
        """Code, tier and seed of raw results that were kept."""
        kept = self._kept(path)
        try:
            return str(kept["code"]), str(kept["tier"]), int(kept["seed"])
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path} does not say what it was measured of: {error}") from error

    def _draw(self, raw: Any, out: Path, accepted: list[str]) -> None:
        from matplotlib import pyplot as plt

        figure = self.picture(raw, accepted)
        for suffix in ("svg", "png"):
            figure.savefig(out / f"figure.{suffix}", dpi=150)
        plt.close(figure)
        info(f"{self.name}: raw results and figure are in {out}")

    def picture(self, raw: Any, accepted: list[str]) -> Any:
        """Ours beside the paper's, as a figure of matplotlib that the caller saves and closes."""
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(10, 4.2), layout="constrained")
        self.module.draw(raw, self.paper.values, figure)
        note = f"{self.paper.title}. Paper: {self.paper.source}"
        if self.paper.provisional:
            note += f"; {PROVISIONAL}"
        if accepted:
            listed = accepted if len(accepted) <= LISTED_MAX else [f"{len(accepted)} values"]
            note += f". Deviations accepted: {', '.join(listed)}"
        figure.suptitle(textwrap.fill(note, TITLE_COLUMNS), fontsize=8)
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        return figure
