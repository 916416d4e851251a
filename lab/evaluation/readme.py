# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An experiment's README.md as HTML, to be part of a page that has no other files."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

from lab.docs.marks import values_only

_QUESTION = re.compile(r"^\*\*Question\.\*\*\s+(.*?)(?:\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TITLE = re.compile(r"^# .*\n", re.MULTILINE)


def _parser() -> MarkdownIt:
    """HTML in a document is shown as text."""
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _for_a_page(tokens: list[Token]) -> list[Token]:
    """Header cells say what they head; a link into the repository, which the reader of the page may
    not have, is only its text, and an image its description."""
    kept = []
    inside: list[bool] = []  # of the open links, which stay
    for token in tokens:
        if token.type == "th_open":
            token.attrSet("scope", "col")
        if token.type == "link_open":
            inside.append(str(token.attrGet("href")).startswith("https://"))
        stays = inside[-1] if token.type.startswith("link_") else token.type != "image"
        if token.type == "link_close":
            inside.pop()
        if token.type == "image":
            kept.append(Token("text", "", 0, content=token.content))
        if token.children:
            token.children = _for_a_page(token.children)
        if stays:
            kept.append(token)
    return kept


def _render(text: str, is_inline: bool = False) -> str:
    parser = _parser()
    tokens = parser.parseInline(text) if is_inline else parser.parse(text)
    return str(parser.renderer.render(_for_a_page(tokens), parser.options, {}))


def question(text: str) -> str:
    """The experiment's question, without its label; empty if the document has none."""
    found = _QUESTION.search(_plain(text))
    return _render(found[1], is_inline=True) if found else ""


def rest(text: str) -> str:
    """The document without title and question."""
    return _render(_QUESTION.sub("", _TITLE.sub("", _plain(text), count=1), count=1))


def _plain(text: str) -> str:
    return _COMMENT.sub("", values_only(text))
