# SPDX-License-Identifier: Apache-2.0 OR MIT
"""format/FORMAT.md agrees with the headers and is complete.

Goal: no wrong offset in the document. Method: the page is generated and compared; each struct's
table is compared with the compiler's layout (format/golden/layout.txt).
"""

from __future__ import annotations

import re
from itertools import takewhile

import pytest

from lab import format as fmt
from lab.docs.format_page import format_page, rows, words

PAGE = fmt.HEADER_DIR / "FORMAT.md"
BLOCK = """
\trem_u64 magic;	      /*  0 REM_BLOCK_MAGIC */
\trem_u32 version;      /*  8 REM_VERSION */
\trem_u32 block_bytes;  /* 12 REM_BLOCK_BYTES */
\trem_u64 region_bytes; /* 16 the whole */
\trem_u64 reserved[4];  /* 24 */
\trem_u32 reserved2;    /* 56 */
\trem_u32 crc;	      /* 60 */
"""


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == format_page(), "run `./rem fmt`"


def test_every_struct_has_the_compilers_places() -> None:
    tables = dict(
        re.findall(r"^### struct (\w+): \d+ bytes\n(.*?)(?=^##)", format_page(), re.M | re.S)
    )
    layout = (fmt.HEADER_DIR / "golden" / "layout.txt").read_text(encoding="utf-8")
    for line in layout.splitlines():
        struct, field, offset, size = line.split()
        if field != "-":
            assert f"| {offset} | {size} | `{field}` |" in tables[struct], line


def test_every_drawing_of_the_headers_is_on_the_page() -> None:
    """From the line with the columns' names to the next empty one."""
    page, drawings = format_page(), 0
    for header in fmt.HEADERS:
        lines = iter((fmt.HEADER_DIR / header).read_text(encoding="utf-8").splitlines())
        for line in lines:
            if re.match(r" \* +offset +bytes", line):
                drawings += 1
                drawn = [line, *takewhile(lambda line: line != " *", lines)]
                assert "\n".join(["```", *(row[5:] for row in drawn), "```"]) in page, header
    assert drawings >= len(("image", "plugin_ctl", "trace", "pm", "pm_block", "ABC", "XYZ"))


def test_every_name_of_the_headers_is_on_the_page() -> None:
    page = format_page()
    for header in fmt.HEADERS:
        text = re.sub(r"/\*.*?\*/", "", (fmt.HEADER_DIR / header).read_text(), flags=re.S)
        names = set(re.findall(r"\bREM_\w+", text)) - {header.upper().replace(".", "_")}
        assert names <= set(re.findall(r"\bREM_\w+", page)), header


@pytest.mark.parametrize("wrong", [BLOCK.replace("/* 16", "/* 20"), BLOCK.replace("/* 56 */", "")])
def test_wrong_offset_in_a_comment_is_an_error(wrong: str) -> None:
    assert [row.offset for row in rows("rem_block", BLOCK)] == [0, 8, 12, 16, 24, 56, 60]
    with pytest.raises(fmt.FormatError, match="offset"):
        rows("rem_block", wrong)


def test_field_that_is_left_out_is_an_error() -> None:
    with pytest.raises(fmt.FormatError, match="not every field"):
        rows("rem_block", BLOCK.replace("rem_u32 version", "rem_u32 edition"))


def test_number_broken_onto_the_next_line_is_no_name() -> None:
    text = fmt.preprocess("enum e {\n\tFIRST = 1,\n\tSECOND =\n\t\t2, /* long */\n};\n")
    assert "SECOND = 2," in text
    assert not [name for name in fmt.EventType.__members__ if name.isdigit()]


def test_lines_of_a_comment_become_one() -> None:
    assert words("/* one\n\t * two\n\t */") == "one two"
