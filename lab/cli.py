# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The command line of `rem`: finds the commands, runs one, turns errors into a line and a code.

A command is a module of lab/commands/ with `register(app: typer.Typer) -> None`; its name is the
command's (`_` for `-`). Only the module that was asked for is imported, so a command starts fast.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import typer

from lab import commands
from lab.errors import Exit, RemError

HELP = "Run machines whose main memory keeps its content, cut their power, let them go on."


def command_modules() -> list[str]:
    """Names of the modules below lab/commands, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(commands.__path__) if m.name[0] != "_")


def build_app(only: str | None = None) -> typer.Typer:
    """The whole application, or with `only` the one command's."""
    app = typer.Typer(
        name="rem",
        help=HELP,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def common(debug: bool = typer.Option(False, "--debug", help="Show tracebacks.")) -> None:
        del debug  # read by main(), which also serves errors before parsing

    for name in [only] if only else command_modules():
        importlib.import_module(f"lab.commands.{name}").register(app)
    return app


def main(argv: list[str]) -> int:
    """Run one command; the only place where exceptions become exit codes."""
    argv = argv or ["--help"]
    debug = argv[:1] == ["--debug"]
    word = argv[1 if debug else 0 :][:1]
    module = word[0].replace("-", "_") if word else ""
    try:
        app = build_app(module if module in command_modules() else None)
        result = typer.main.get_command(app).main(argv, prog_name="rem", standalone_mode=False)
        return result if isinstance(result, int) else Exit.PASS
    except (KeyboardInterrupt, typer.Abort):
        print("rem: interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    except RemError as error:
        if debug:
            raise
        print(f"rem: {error.message}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # no space, no right, a file that vanished
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
