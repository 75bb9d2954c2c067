"""The beginning of a patch, read without judging it: what its whole lines would change."""

from __future__ import annotations

from typing import Any

from spindle.patch.parse import ADD, DELETE, MOVE, UPDATE


def changes_so_far(text: str) -> dict[str, dict[str, Any]]:
    """FileChange objects of protocol v1 by path as it is written. The diff of an update has no line numbers."""
    found: dict[str, tuple[str, str | None, list[str]]] = {}
    path = ""
    for line in text.split("\n")[:-1]:
        header, colon, rest = line.partition(":")
        if line.startswith("*** "):
            match header + colon:
                case kind if kind in (ADD, DELETE, UPDATE):
                    path = rest.strip()
                    found[path] = kind, None, []
                case kind if kind == MOVE and path in found:
                    found[path] = found[path][0], rest.strip(), found[path][2]
                case _:
                    pass
        elif path in found:
            found[path][2].append(line + "\n")
    return {path: _change(*parts) for path, parts in found.items() if path}


def _change(kind: str, move_path: str | None, lines: list[str]) -> dict[str, Any]:
    if kind == ADD:
        return {"type": "add", "content": "".join(line[1:] for line in lines)}
    if kind == DELETE:
        return {"type": "delete", "content": ""}
    return {"type": "update", "unified_diff": "".join(lines), "move_path": move_path}
