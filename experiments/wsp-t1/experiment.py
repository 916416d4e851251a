# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, Table 1: see README.md."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from lab.bench.heap import scratch_folder
from lab.bench.ldap import PLAIN, insert, ratio
from lab.experiment.run import Context, Report
from lab.setup.openldap import LdapServer
from lab.setup.products import need

NAMES = {"foc_stm": "FoC+STM", "foc_ul": "FoC+UL", "foc_rl": "FoC+RL", "fof": "FoF", "plain": PLAIN}
LABELS = NAMES | {"plain": "plain memory"}
DURABLE = ("foc_stm", "foc_ul", "foc_rl")
ENTRIES, ENTRIES_CI = 100_000, 2000
BATCH = 200
REGION_BYTES = 256 << 20  # an entry takes about 1 KiB
SUFFIX_ENTRIES = 1
# The paper's pair: Mnemosyne is transactional memory that flushes on commit.
PAPER = ("foc_stm", "fof")
SERVER_PERCENT = (50, 20, 10, 5, 0)  # of what slapd itself does for an entry


def measure(it: Context) -> dict[str, Any]:
    ldap = need(LdapServer())
    entries = ENTRIES_CI if it.is_ci else ENTRIES
    with tempfile.TemporaryDirectory(prefix="rem-ldap-", dir=scratch_folder()) as folder:
        found = insert(ldap, Path(folder), list(NAMES.values()), entries, BATCH, REGION_BYTES)
    return {
        "entries": entries,
        "servers": {name: vars(found[policy]) for name, policy in NAMES.items()},
    }


def _judge_paper(servers: dict[str, Any], report: Report) -> None:
    """The client's time under both of the paper's versions, and with less of slapd's own work."""
    above, below = (servers[name] for name in PAPER)
    name = "_vs_".join(PAPER)
    value, spread = ratio(above["client_ns"], below["client_ns"])
    report.result.add(name, value, "x", "native")
    report.result.add(f"{name}_spread", spread, "%", "native")
    server_ns = median(below["client_ns"]) - below["back_end_ns"]
    for percent in SERVER_PERCENT:
        rest_ns = server_ns * percent / 100
        share = (rest_ns + above["back_end_ns"]) / (rest_ns + below["back_end_ns"])
        report.result.add(f"{name}, {percent}% of slapd's own work", share, "x", "native")


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    servers = raw["servers"]
    for name, one in servers.items():
        report.result.add(f"{name}_client_ns", median(one["client_ns"]), "ns", "native")
        report.result.add(f"{name}_back_end_ns", one["back_end_ns"], "ns", "native")
        report.expect(
            f"{LABELS[name]}: all {raw['entries']} entries are in the directory",
            one["entries"] == raw["entries"] + SUFFIX_ENTRIES,
        )
        if name == "plain":
            continue
        value, spread = ratio(one["client_ns"], servers["plain"]["client_ns"])
        report.result.add(f"{name}_vs_plain", value, "x", "native")
        report.result.add(f"{name}_vs_plain_spread", spread, "%", "native")
        share = one["back_end_ns"] / servers["plain"]["back_end_ns"]
        report.result.add(f"{name}_back_end_vs_plain", share, "x", "native")
    _judge_paper(servers, report)
    for name in DURABLE:
        # Order only: how far they are apart is the machine's matter.
        ours, plain = servers[name]["back_end_ns"], servers["plain"]["back_end_ns"]
        report.expect(
            f"the back end takes longer under {LABELS[name]} than in plain memory "
            f"({ours:.0f}, {plain:.0f} ns)",
            ours > plain,
        )


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    servers = raw["servers"]
    times, ratios = figure.subplots(1, 2)
    labels = [LABELS[name] for name in servers]
    client = [median(one["client_ns"]) / 1000 for one in servers.values()]
    back_end = [one["back_end_ns"] / 1000 for one in servers.values()]
    times.bar(labels, client, color="0.8", label="an insertion, as the client sees it")
    times.bar(labels, back_end, label="of it in the back end")
    times.set(ylabel="us per insertion")
    plain = servers["plain"]
    names = [name for name in servers if name != "plain"]
    seen = [ratio(servers[name]["client_ns"], plain["client_ns"]) for name in names]
    places = range(len(names))
    ratios.bar(
        [place - 0.2 for place in places],
        [value for value, _ in seen],
        0.4,
        yerr=[value * spread / 100 for value, spread in seen],
        color="0.8",
        label="as the client sees it",
    )
    inside = [servers[name]["back_end_ns"] / plain["back_end_ns"] for name in names]
    ratios.bar([place + 0.2 for place in places], inside, 0.4, label="in the back end")
    ratios.axhline(paper["fof_vs_heap"], color="k", linestyle=":", label="paper: Mnemosyne / FoF")
    ratios.set_xticks(list(places), [LABELS[name] for name in names])
    ratios.set(ylabel="times plain memory")
    for axes in (times, ratios):
        axes.legend(frameon=False, fontsize=7)
