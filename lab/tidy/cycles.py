# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No cycles among Python modules, nor among the rooms that they are in.

An import inside a function counts as well: what it hides from the interpreter it does not hide
from a reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.tidy.finding import Finding
from lab.tidy.references import Project, references
from lab.tidy.rooms import Rooms

RULE = "cycle"


def check_cycles(rooms: Rooms, texts: dict[str, str]) -> Iterator[Finding]:
    project = Project.of(texts)
    modules: dict[str, set[str]] = {}
    between: dict[str, set[str]] = {}
    for name, text in texts.items():
        if not name.endswith(".py"):
            continue
        targets = {reference.target for reference in references(project, name, text)}
        modules[name] = targets
        room = rooms.of(name)
        others = [rooms.of(target) for target in targets]
        for other in others:
            if room is not None and other is not None and other != room:
                between.setdefault(room.path, set()).add(other.path)
    for cycle in cycles(modules):
        yield Finding(cycle[0], 1, f"imports itself by way of {', '.join(cycle[1:])}", RULE)
    for cycle in cycles(between):
        yield Finding(cycle[0], 1, f"rooms import each other: {', '.join(cycle)}", RULE)


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node, each sorted (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for start in sorted(graph):
        if start in index:
            continue
        todo: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while todo:
            node, targets = todo[-1]
            target = next(targets, None)
            if target is None:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[node])
                if low[node] == index[node]:
                    component = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(component) > 1:
                        found.append(sorted(component))
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                todo.append((target, iter(sorted(graph.get(target, ())))))
            elif target in stack:
                low[node] = min(low[node], index[target])
    return sorted(found)
