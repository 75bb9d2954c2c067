"""What a person's yes grants: an effect, for a scope, until it ends. And the session's book of those that last.

A grant holds only inside the boundary it was given in. Another folder or another sandbox would give the same words
another meaning, so both end it. What outlives a session is a rule in a file, see `rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from spindle.policy.sandbox import Boundary
from spindle.protocol.quote import shell_join, visible

Effect = Literal["run_in_sandbox", "run_without_sandbox", "write_file", "call_tool", "reach_more"]
Expiry = Literal["once", "turn", "session", "revoked"]


class CommandScope(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="command"):
    """Exactly this command in exactly this folder."""

    command: tuple[str, ...]
    cwd: str


class PrefixScope(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="prefix"):
    """Every command that begins with these words, wherever it runs."""

    prefix: tuple[str, ...]


class FileScope(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """One file, by its absolute path."""

    path: str


class ToolScope(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """One tool of one MCP server, whatever its arguments. Without a server: a function of the embedding program."""

    server: str
    tool: str
    definition: str = ""
    """Stands for what the server said of the tool when the yes was given. It is no part of what others are shown."""


RESOURCES = "resources"
"""The name of what is no tool of a server, listing and reading what it keeps; its definition begins with it."""


class PlaceScope(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="place"):
    """A file or folder with all that is below it, for commands in the sandbox; an absolute path."""

    path: str
    access: Literal["read", "write"]


class NetworkScope(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="network"):
    """The network, for commands in the sandbox."""


Scope = CommandScope | PrefixScope | FileScope | ToolScope | PlaceScope | NetworkScope


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is allowed. `id` is empty while it is only offered."""

    id: str = ""
    effect: Effect
    scope: Scope
    expires: Expiry

    def to_wire(self) -> dict[str, Any]:
        """For events: the same fields and a sentence for people."""
        fields = msgspec.to_builtins(self.scope)
        fields.pop("definition", None)
        scope = {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}
        return {**msgspec.to_builtins(self), "scope": scope, "text": describe(self)}


def command_grant(argv: Sequence[str], cwd: str, *, sandboxed: bool, expires: Expiry) -> Grant:
    effect: Effect = "run_in_sandbox" if sandboxed else "run_without_sandbox"
    return Grant(effect=effect, scope=CommandScope(command=tuple(argv), cwd=cwd), expires=expires)


def prefix_grant(prefix: Sequence[str]) -> Grant:
    """What a saved rule grants. Its id depends on nothing but the words, so that it is the same in every session."""
    import hashlib  # never on the way to a first request

    digest = hashlib.sha256("\0".join(prefix).encode("utf-8", "surrogatepass")).hexdigest()
    scope = PrefixScope(prefix=tuple(prefix))
    return Grant(id=f"rule-{digest[:8]}", effect="run_without_sandbox", scope=scope, expires="revoked")


def file_grant(path: str, *, expires: Expiry) -> Grant:
    return Grant(effect="write_file", scope=FileScope(path=path), expires=expires)


def tool_grant(server: str, tool: str, *, expires: Expiry, definition: str = "") -> Grant:
    scope = ToolScope(server=server, tool=tool, definition=definition)
    return Grant(effect="call_tool", scope=scope, expires=expires)


def place_grant(path: str, access: Literal["read", "write"], *, expires: Expiry) -> Grant:
    return Grant(effect="reach_more", scope=PlaceScope(path=path, access=access), expires=expires)


def network_grant(*, expires: Expiry) -> Grant:
    return Grant(effect="reach_more", scope=NetworkScope(), expires=expires)


def describe(grant: Grant) -> str:
    """The grant as a sentence in which nothing is hidden."""
    until = _UNTIL[grant.expires]
    match grant.scope:
        case FileScope(path=path):
            return f"write {visible(path)}, {until}"
        case PlaceScope(path=path, access=access):
            return f"{access} {visible(path)} and what is below it inside the sandbox, {until}"
        case NetworkScope():
            return f"use the network inside the sandbox, {until}"
        case ToolScope(server=server, definition=definition) if definition.startswith(RESOURCES):
            return f"list and read the resources of the MCP server {visible(server)}, {until}"
        case ToolScope(server="", tool=tool):
            return f"use the tool {visible(tool)}, {until}"
        case ToolScope(server=server, tool=tool):
            return f"use the tool {visible(tool)} of the MCP server {visible(server)}, {until}"
        case PrefixScope(prefix=prefix):
            what = f"run every command that begins with `{visible(shell_join(prefix))}`"
        case CommandScope(command=command, cwd=cwd):
            what = f"run `{visible(shell_join(command))}` in {visible(cwd)}"
    where = "inside the sandbox" if grant.effect == "run_in_sandbox" else "without the sandbox"
    return f"{what} {where}, {until}"


_UNTIL: dict[Expiry, str] = {
    "once": "once",
    "turn": "until this turn ends",
    "session": "until the session ends",
    "revoked": "until you revoke it",
}


class Grants:
    """What holds until the session ends, each with the boundary it was given in."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Grant, Boundary]] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Grant]:
        return (grant for grant, _ in self._held.values())

    def add(self, offered: Grant, boundary: Boundary) -> Grant | None:
        """Keep it, with an id. None when it is there already, for as long or longer."""
        if self._find(offered.effect, offered.scope, boundary, lasting=offered.expires != "turn"):
            return None
        self._count += 1
        grant = msgspec.structs.replace(offered, id=f"grant-{self._count}")
        self._held[grant.id] = (grant, boundary)
        return grant

    def revoke(self, grant_id: str) -> Grant | None:
        grant, _ = self._held.pop(grant_id, (None, None))
        return grant

    def end_turn(self) -> None:
        """Take out what was given for one turn."""
        self._held = {key: held for key, held in self._held.items() if held[0].expires != "turn"}

    def end_outside(self, *boundaries: Boundary) -> list[Grant]:
        """Take out what was given in any other boundary than these."""
        ended = [grant for grant, given_in in self._held.values() if given_in not in boundaries]
        for grant in ended:
            del self._held[grant.id]
        return ended

    def cover(self, wanted: Iterable[Grant], boundary: Boundary) -> bool:
        """Was each of these granted here, word for word?"""
        return all(self._find(grant.effect, grant.scope, boundary) for grant in wanted)

    def lasting(self, wanted: Iterable[Grant], boundary: Boundary) -> bool:
        """Does each of these hold for longer than this turn?"""
        return all(self._find(grant.effect, grant.scope, boundary, lasting=True) for grant in wanted)

    def _find(self, effect: Effect, scope: Scope, boundary: Boundary, *, lasting: bool = False) -> bool:
        return any(
            grant.effect == effect
            and grant.scope == scope
            and given_in == boundary
            and not (lasting and grant.expires == "turn")
            for grant, given_in in self._held.values()
        )
