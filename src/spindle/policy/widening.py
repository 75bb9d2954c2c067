"""More than the sandbox allows, by a person's word: what may be asked for, and the boundary that comes of a yes.

A yes adds to the boundary of a thread. What is closed for everybody stays closed: what is denied by name, what is
protected below a writable folder, and the agent's own files. Asking for those is refused, each with its reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from spindle.policy import deny
from spindle.policy.sandbox import PROTECTED_NAMES, Boundary, absolute, is_below, is_system_folder, protected_paths
from spindle.protocol.quote import visible
from spindle.protocol.settings import Allowed, PathRule, SandboxPolicy

MOST_PATHS = 64


class Widening(msgspec.Struct, frozen=True, kw_only=True):
    """What commands may reach beside what their sandbox allows. Paths are resolved, without repetitions."""

    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.network or bool(self.read or self.write)

    def joined(self, other: Widening) -> Widening:
        return Widening(
            network=self.network or other.network,
            read=tuple(dict.fromkeys((*self.read, *other.read))),
            write=tuple(dict.fromkeys((*self.write, *other.write))),
        )

    def to_wire(self) -> dict[str, Any]:
        """As clients are shown it; null for what is not asked for."""
        entries = [
            {"path": {"type": "path", "path": path}, "access": access}
            for access, paths in (("read", self.read), ("write", self.write))
            for path in paths
        ]
        files = {"read": list(self.read) or None, "write": list(self.write) or None, "entries": entries}
        return {"network": {"enabled": True} if self.network else None, "fileSystem": files if entries else None}

    def within(self, answer: Any) -> Widening:
        """What of it an answer in the form of `to_wire` gives; it can give less, and nothing else."""
        given = answer if isinstance(answer, dict) else {}
        network = given.get("network")
        files = given.get("fileSystem")
        if not isinstance(files, dict):
            files = given.get("file_system")
        files = files if isinstance(files, dict) else {}
        write = [*_texts(files.get("write")), *_entries(files, "write")]
        read = [*_texts(files.get("read")), *_entries(files, "read")]
        closed = [os.path.realpath(path) for path in _entries(files, "deny")]
        return Widening(
            network=self.network and isinstance(network, dict) and network.get("enabled") is True,
            read=_inside(read, (*self.read, *self.write), closed),
            write=_inside(write, self.write, closed),
        )


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a model asks for, in its own words: paths may be relative, and lead anywhere."""

    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    reason: str | None = None


class Bounded(msgspec.Struct, frozen=True, kw_only=True):
    """What of a wish a person may be asked about, and why not the rest."""

    more: Widening
    refused: tuple[str, ...] = ()
    """A sentence each."""


def _texts(value: Any) -> list[str]:
    return [path for path in value if isinstance(path, str)] if isinstance(value, list) else []


def _entries(files: dict[str, Any], access: str) -> list[str]:
    found = files.get("entries")
    paths = [
        entry["path"].get("path")
        for entry in (found if isinstance(found, list) else ())
        if isinstance(entry, dict) and entry.get("access") == access and isinstance(entry.get("path"), dict)
    ]
    return _texts(paths)


def _inside(paths: Iterable[str], asked: Sequence[str], closed: Sequence[str]) -> tuple[str, ...]:
    real = dict.fromkeys(os.path.realpath(path) for path in paths if path.startswith("/") and "\0" not in path)
    return tuple(
        path
        for path in real
        if any(is_below(path, one) for one in asked) and not any(is_below(path, one) for one in closed)
    )


# ---- what may be asked for -------------------------------------------------------------------------


def bounded(wish: Wish, boundary: Boundary, allowed: Allowed) -> Bounded:
    """The wish without what no answer could give; relative paths are seen from the working folder."""
    network, read, write = wish.network, wish.read, wish.write
    refused: list[str] = []

    def keep(paths: Sequence[str], why_not: Callable[[str], str | None]) -> tuple[str, ...]:
        kept: dict[str, None] = {}
        for path in paths[:MOST_PATHS]:
            # A person is asked about the place that a link leads to now, and that is what a yes is for.
            real = os.path.realpath(absolute(os.path.expanduser(path), boundary.cwd)) if "\0" not in path else ""
            if (reason := why_not(real)) is None:
                kept[real] = None
            else:
                refused.append(f"{visible(real or path)}: {reason}")
        return tuple(kept)

    limit = _limit(boundary.policy, allowed)
    if (network or write) and limit is not None:
        refused.append(limit)
        network, write = False, ()
    if len(read) > MOST_PATHS or len(write) > MOST_PATHS:
        refused.append(f"more than {MOST_PATHS} paths at a time; ask for a folder that holds them")
    more = Widening(
        network=network,
        read=keep(read, lambda real: _why_unreadable(real, boundary)),
        write=keep(write, lambda real: _why_unwritable(real, boundary)),
    )
    return Bounded(more=more, refused=tuple(refused))


def _limit(policy: SandboxPolicy, allowed: Allowed) -> str | None:
    """Why this machine's administrator lets nobody have more."""
    if allowed.sandbox_modes is None or "danger-full-access" in allowed.sandbox_modes:
        return None
    if policy.permissions is not None or "workspace-write" not in allowed.sandbox_modes:
        return "the administrator of this machine allows no more than the sandbox that is in force"
    return None


def _why_unreadable(real: str, boundary: Boundary) -> str | None:
    if not real or not os.path.lexists(real):
        return "there is no such file or folder"
    if deny.is_denied(real, boundary.denied) or boundary.is_hidden(real):
        return "the settings deny reading it, and no answer changes that"
    return None


def _why_unwritable(real: str, boundary: Boundary) -> str | None:
    if (reason := _why_unreadable(real, boundary)) is not None:
        return reason
    if real == "/":
        return "nobody gives all of the disk at once; name the folders that you need"
    if not os.path.isdir(real):
        return "it is no folder, and only whole folders can be made writable; ask for the one around it"
    if is_system_folder(real):
        return "files of the system itself are never writable in the sandbox"
    if any(is_below(real, own) for own in (*boundary.homes, *boundary.programs, *boundary.fence.shown)):
        return "these are the agent's own files"
    # Not only those of the roots: where nothing can be written yet, there are none.
    protected = {*PROTECTED_NAMES, *(name.casefold() for name in boundary.fence.protected if "/" not in name)}
    kept = (
        path for root in (*boundary.roots, boundary.cwd) for path in protected_paths(root, boundary.fence.protected)
    )
    if protected.intersection(real.casefold().split("/")) or any(
        is_below(real, os.path.realpath(path)) for path in kept
    ):
        return "it stays read-only, because programs outside of the sandbox obey it"
    return None


# ---- what a yes comes to ---------------------------------------------------------------------------


def widened(base: Boundary, more: Widening, draw: Callable[[SandboxPolicy], Boundary]) -> Boundary:
    """The boundary with more in it; `draw` makes one for a policy in the same surroundings."""
    if base.is_full_access or not more:
        return base
    policy = msgspec.structs.replace(base.policy, network_access=base.policy.network_access or more.network)
    if (profile := policy.permissions) is not None:
        rules = (
            *(PathRule(deny.escape(path), "read") for path in more.read),
            *(PathRule(deny.escape(path), "write") for path in more.write),
        )
        return draw(
            msgspec.structs.replace(
                policy, permissions=msgspec.structs.replace(profile, rules=(*profile.rules, *rules))
            )
        )
    if policy.mode == "read-only" and more.write:
        # Drawn as if the workspace were writable, of which only the rest is kept: what was granted.
        drawn = draw(
            msgspec.structs.replace(
                policy,
                mode="workspace-write",
                writable_roots=more.write,
                exclude_slash_tmp=True,
                exclude_tmpdir_env_var=True,
            )
        )
        drawn = msgspec.structs.replace(
            # The working folder is a root where it lies in what was given, so that its own `.git` stays closed.
            drawn,
            policy=policy,
            roots=tuple(root for root in drawn.roots if any(is_below(root, given) for given in more.write)),
        )
    else:
        roots = tuple(dict.fromkeys((*policy.writable_roots, *more.write)))
        drawn = draw(msgspec.structs.replace(policy, writable_roots=roots))
    return drawn.showing(*more.read, *more.write)


Expires = Literal["turn", "session"]


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a wish."""

    more: Widening = Widening()
    expires: Expires = "turn"
    reasons: tuple[str, ...] = ()
    """Why it is less than was asked for, as sentences for the model."""
