# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Functions of the kernel sources: which are reached, and how many lines they have.

Goal: the count is of code, and of what runs. Method: small sources in kernel style, and the tree's
own, in which the way from the interrupt to the commit is known.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.experiment.sources import (
    FOLDERS,
    SAVE_BEGIN,
    SAVE_ENDS,
    Function,
    code_of,
    functions_below,
    functions_in,
    reached,
    save_path,
)
from lab.paths import repo_dir

SOURCE = """// SPDX-License-Identifier: GPL-2.0-only
/*
 * A comment that calls rem_never().
 */
#include "x.h"

static struct rem_a {
	int b;
} rem_a;

/** rem_leaf - a comment. */
static int rem_leaf(void)
{
	return strlen("/* no comment, and no rem_never() */");
}

/* Given to another function. */
static int rem_given(void *unused)
{
	/* rem_never() */

	return rem_leaf(); // rem_never()
}

bool rem_root(unsigned int a,
		unsigned int b)
{
	return queue(rem_given) && rem_end();
}

static void rem_end(void)
{
	rem_never();
}

void rem_never(void)
{
}
"""
ASSEMBLY = """/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>
/* int rem_asm(void) calls rem_never() */
SYM_FUNC_START(rem_asm)
	call	rem_leaf

	RET
SYM_FUNC_END(rem_asm)
"""


def by_name(functions: list[Function]) -> dict[str, int]:
    return {one.name: one.code_lines for one in functions}


def test_lines_are_code_without_comments_and_blank_lines() -> None:
    assert by_name(functions_in("a.c", SOURCE)) == {
        "rem_leaf": 4,
        "rem_given": 4,
        "rem_root": 5,
        "rem_end": 4,
        "rem_never": 3,
    }
    assert by_name(functions_in("a.S", ASSEMBLY)) == {"rem_asm": 4}
    assert code_of('a("//"); // b\n\n/* c\nd */ e\n') == 'a("//");\n e\n'


def test_way_follows_functions_that_are_given_and_not_comments_or_strings() -> None:
    functions = functions_in("a.c", SOURCE) + functions_in("a.S", ASSEMBLY)
    found = by_name(reached(functions, ["rem_root"], {"rem_end": "not that one"}))
    assert set(found) == {"rem_root", "rem_given", "rem_leaf"}
    assert set(by_name(reached(functions, ["rem_root"], {}))) == {*found, "rem_end", "rem_never"}
    assert set(by_name(reached(functions, ["rem_asm"], {}))) == {"rem_asm", "rem_leaf"}


@pytest.mark.parametrize(("roots", "ends"), [(["rem_gone"], {}), (["rem_root"], {"rem_gone": ""})])
def test_name_that_is_no_function_any_more_is_no_silent_zero(
    roots: list[str], ends: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="rem_gone"):
        reached(functions_in("a.c", SOURCE), roots, ends)


def test_longest_of_one_name_counts() -> None:
    empty = functions_in("b.h", "static void rem_leaf(void)\n{\n}\n")
    functions = functions_in("a.c", SOURCE)
    for order in (empty + functions, functions + empty):
        assert by_name(reached(order, ["rem_leaf"], {})) == {"rem_leaf": 4}


def test_save_path_leads_to_the_commit_and_not_into_go() -> None:
    path = {one.name for one in save_path(repo_dir() / "kernel")}
    assert {SAVE_BEGIN, "rem_stop_fast", "rem_park_queue", "rem_devices_stop", "rem_quiet_begin",
            "rem_context_save", "rem_save_and_call", "rem_record_commit", "rem_nvdimm_save",
            "rem_halt"} <= path  # fmt: skip
    assert not path & {*SAVE_ENDS, "rem_devices_go", "rem_virtio_go", "rem_stop_dpm"}


def test_way_that_the_commit_leaves_is_seen(tmp_path: Path) -> None:
    """The negative proof: sources in which the boot CPU does not commit."""
    for part in FOLDERS:
        (tmp_path / part).mkdir()
        for source in (repo_dir() / "kernel" / part).glob("*.[chS]"):
            text = source.read_text(encoding="utf-8")
            text = text.replace("return rem_record_commit();", "return 0;")
            (tmp_path / part / source.name).write_text(text, encoding="utf-8")
    path = {one.name for one in save_path(tmp_path)}
    assert "rem_park_commit" in path
    # The portable path commits, too, and is not on the way.
    assert not path & {"rem_record_commit", "rem_nvdimm_save", "rem_power_wait"}
    assert len(functions_below(tmp_path)) == len(functions_below(repo_dir() / "kernel"))
