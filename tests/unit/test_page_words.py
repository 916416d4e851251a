# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A page that a program of lab/testbed/page_words.h has written is recognized as what it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.testbed.page_words import Page, told_by

SOURCE = """
#include "page_words.h"
int main(void)
{
	uint64_t words[WORDS];

	fill_words(words, KIND, NUMBER, VERSION);
	fwrite(words, sizeof(words), 1, stdout);
}
"""


@pytest.mark.parametrize(
    "page", [Page(0, 0, 0), Page(1, 2, 3), Page(63, (1 << 22) - 1, (1 << 26) - 1)]
)
def test_page_of_the_program_is_recognized(page: Page, tmp_path: Path) -> None:
    (tmp_path / "page.c").write_text(SOURCE)
    values = {"KIND": page.kind, "NUMBER": page.number, "VERSION": page.version}
    words = [f"-D{name}={value}" for name, value in values.items()]
    testbed = repo_dir() / "lab" / "testbed"
    made = tmp_path / "page"
    subprocess.run(
        ["gcc", "-I", str(testbed), *words, "-o", str(made), str(tmp_path / "page.c")], check=True
    )
    data = subprocess.run([str(made)], check=True, capture_output=True).stdout
    assert told_by(data) == page
    torn = bytearray(data)
    torn[-1] ^= 1
    assert told_by(bytes(torn)) is None


def test_other_bytes_are_no_page() -> None:
    assert told_by(b"\xff" * 4096) is None
