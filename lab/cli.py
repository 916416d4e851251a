# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command line of `rem`: finds the commands, runs one, turns errors into a line and a code.

A command is a module of lab/commands/ with `register(app: typer.Typer) -> None`; its name is the
command's (`_` for `-`). A module is imported when its command is used, so a command starts fast.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from lab import commands
from lab.command_line.welcome import welcome_page
from lab.errors import Exit, RemError
from lab.run import end_threads_on_ctrl_c

HELP = "Run machines whose main memory keeps its content, cut their power, resume them."


class LazyCommands(Mapping[str, Any]):
    """The parsers of all commands by name; each is made at its first use."""

    def __init__(self) -> None:
        found = (module.name for module in pkgutil.iter_modules(commands.__path__))
        self._names = sorted(name.replace("_", "-") for name in found if name[0] != "_")
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            module = name.replace("-", "_")
            importlib.import_module(f"lab.commands.{module}").register(app)
            self._made[name] = typer.main.get_group(app).commands[name]
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class LazyGroup(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands: Any = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


def parser() -> Any:
    """The parser of the whole command line."""
    app = typer.Typer(
        name="rem",
        cls=LazyGroup,
        help=HELP,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def common(debug: bool = typer.Option(False, "--debug", help="Show tracebacks.")) -> None:
        del debug  # read by main(), which also serves errors before parsing

    return typer.main.get_command(app)


def enter(argv: list[str]) -> int:
    """Run one command as this process; Ctrl-C ends it with all that it has started."""
    end_threads_on_ctrl_c()
    return main(argv)


def main(argv: list[str]) -> int:
    """Run one command; the only place where exceptions become exit codes."""
    if not argv:
        print(welcome_page(), end="")
        return Exit.PASS
    debug = argv[:1] == ["--debug"]
    try:
        result = parser().main(argv, prog_name="rem", standalone_mode=False)
        return result if isinstance(result, int) else Exit.PASS
    except (KeyboardInterrupt, typer.Abort):
        print("rem: interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    except RemError as error:
        if debug:
            raise
        print(f"rem: {error.message}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # no space, no permission, a file that vanished
        if debug:
            raise
        where = f": {error.filename}" if error.filename else ""
        print(f"rem: {error.strerror or error}{where} (where: `rem --debug ...`)", file=sys.stderr)
        return Exit.INFRASTRUCTURE
    except typer.Exit as stop:
        return stop.exit_code
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of the parser, whichever it is
            print(f"rem: {error.format_message()} (see `rem --help`)", file=sys.stderr)
            return Exit.USAGE
        raise
