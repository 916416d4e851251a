# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `rem` prints without arguments."""

from __future__ import annotations

FIRST_COMMANDS = {
    "demo": "a machine under load loses its power and resumes where it was",
    "run -d": "power on a machine of your own; `./rem ssh` runs commands in it",
    "cut": "take its power away: it stops, and only its memory and disk survive",
    "resume -d": "give it its power back: it continues with the next instruction",
    "doctor": "what is installed and built, what is missing, and what to do",
}
PAGES = {
    "README.md": "what this is, and what it is not yet",
    "docs/tutorial.md": "a first hour",
    "man/rem.1": "every command and option",
}


def welcome_page() -> str:
    """For somebody who types `rem` for the first time."""
    lines = [
        "rem runs machines whose main memory keeps its content without power.",
        "",
        "Five commands to begin with:",
        "",
        *(f"    ./rem {command:12}{what}" for command, what in FIRST_COMMANDS.items()),
        "",
        "The first one installs and builds what is missing; as root on Debian 12 or 13 it needs",
        "nothing else. All commands: `./rem --help`; one: `./rem COMMAND --help`.",
        "",
        "Read on:",
        "",
        *(f"    {path:18}{what}" for path, what in PAGES.items()),
    ]
    return "\n".join(lines) + "\n"
