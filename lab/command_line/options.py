# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A command's options as a frozen dataclass: the words as typed, before any check.

    @dataclass(frozen=True)
    class StopWords:
        name: NameOption = DEFAULT_NAME
        power_off: Annotated[bool, typer.Option("--power-off", help="...")] = False

    @app.command("stop")
    @takes(StopWords)
    def stop_command(words: StopWords) -> int: ...

A field that is itself such a dataclass is a group of options. The command then makes a checked
plan of the words, and runs it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

DEFAULT_NAME = "default"
NameOption = Annotated[str, typer.Option("--name", help="The machine.", metavar="NAME")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]

Words = TypeVar("Words")


def takes(record: type[Words]) -> Callable[[Callable[[Words], int]], Callable[..., int]]:
    """Decorate a function of one record, so that Typer reads the record's fields as options."""

    def decorate(function: Callable[[Words], int]) -> Callable[..., int]:
        def command(**values: Any) -> int:
            return function(_build(record, values))

        parameters = list(_parameters(record))
        if len({parameter.name for parameter in parameters}) != len(parameters):
            raise TypeError(f"{record.__name__}: two options have the same name")
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": int}
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _parameters(record: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(record, include_extras=True)
    found = []
    for field in dataclasses.fields(record):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            found += _parameters(hint)
            continue
        default = inspect.Parameter.empty
        if field.default is not dataclasses.MISSING:
            default = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )
        )
    return found


def _build(record: Any, values: dict[str, Any]) -> Any:
    hints = get_type_hints(record)
    return record(
        **{
            field.name: _build(hints[field.name], values)
            if dataclasses.is_dataclass(hints[field.name])
            else values[field.name]
            for field in dataclasses.fields(record)
        }
    )
