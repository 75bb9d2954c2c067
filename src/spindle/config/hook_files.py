"""`[hooks]` tables and `hooks.json` files → hooks. Loaded only when there are any.

Each file adds its hooks to those of the others. A hook is known by its place and by the hash of its definition; both
are spelt as the reference program spells them, so consent that was given there counts here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from spindle.config.kinds import describe
from spindle.config.sources import read_text
from spindle.errors import ConfigError
from spindle.policy.hook_answers import is_readable
from spindle.protocol.hook_records import (
    DEFAULT_TIMEOUT_S,
    EVENTS,
    LAST_WORDS_MAX_S,
    LAST_WORDS_S,
    MATCHED,
    Hook,
    Source,
    Trust,
    snake,
)
from spindle.protocol.items import decode_json
from spindle.protocol.quote import visible
from spindle.workspace.files import shown

SESSION_FLAGS = "/<session-flags>/config.toml"
"""Stands for a file in the keys of hooks that came by `-c`."""
_NOT_RUN = ("Interrupt", "PreModelRequest", "PostModelRequest")
"""Events of the reference program that call no hook here."""
_GROUP = {"matcher": str, "hooks": list}
_HANDLER: dict[str, type] = {
    "type": str,
    "command": str,
    "timeout": int,
    "async": bool,
    "statusMessage": str,
    "additionalContextLimit": int,
    "sandbox": bool,
}
_SENTENCE = "[[hooks.EVENT]] with an optional matcher, and in it [[hooks.EVENT.hooks]] with type and command"


class HookTable(msgspec.Struct, frozen=True, kw_only=True):
    """The `[hooks]` table of one source."""

    path: str
    source: Source
    table: Mapping[str, Any]


def build_hooks(
    tables: Sequence[HookTable],
    files: Sequence[tuple[str, Source]],
    warnings: list[str],
    *,
    skip_consent: bool = False,
) -> tuple[Hook, ...]:
    """Every hook, those of the administrator first, then the user's, the project's, and those of the command line.

    `files` are `hooks.json` files that may be read. `skip_consent`: hooks of a trusted project need no consent of
    their own.
    """
    state: dict[str, Any] = {}
    for table in tables:
        state |= given if isinstance(given := table.table.get("state"), dict) else {}
    read = [*[_read_file(path, source) for path, source in files], *tables]
    ranks: dict[str, int] = {"system": 0, "user": 1, "project": 2, "sessionFlags": 3}
    hooks: list[Hook] = []
    for table in sorted(read, key=lambda table: ranks[table.source]):
        hooks += _Parser(table, state, warnings, skip_consent=skip_consent).hooks()
    _warn_about_consent(hooks, warnings)
    return tuple(msgspec.structs.replace(hook, order=order) for order, hook in enumerate(hooks))


def _read_file(path: str, source: Source) -> HookTable:
    text = read_text(path, "file of hooks") or "{}"
    try:
        value = decode_json(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{shown(path)}: this is not valid JSON: {error}") from error
    table = value.get("hooks", {}) if isinstance(value, dict) else None
    if not isinstance(table, dict):
        raise ConfigError(f'{shown(path)}: this must be an object with the member "hooks": {{EVENT: [...]}}')
    return HookTable(path=path, source=source, table=table)


class _Parser:
    """Reads the hooks of one source."""

    def __init__(self, table: HookTable, state: Mapping[str, Any], warnings: list[str], *, skip_consent: bool) -> None:
        self._table = table
        self._state = state
        self._warnings = warnings
        self._skips_consent = skip_consent
        self._label = "-c" if table.source == "sessionFlags" else shown(table.path)

    def hooks(self) -> list[Hook]:
        found: list[Hook] = []
        for event in self._table.table:
            if event not in EVENTS and event != "state":
                known = "is not run by this version" if event in _NOT_RUN else f"is none of {', '.join(EVENTS)}"
                self._warnings.append(f"{self._label}: hooks.{visible(event)} is ignored: it {known}")
        for event in EVENTS:
            groups = self._table.table.get(event, [])
            if not isinstance(groups, list):
                raise self._wrong(f"hooks.{event}", groups, "an array of tables")
            for number, group in enumerate(groups):
                found += self._group(event, number, group)
        return found

    def _group(self, event: str, number: int, group: Any) -> list[Hook]:
        where = f"hooks.{event}[{number}]"
        self._check(where, group, _GROUP)
        matcher = group.get("matcher") if event in MATCHED else None
        if not is_readable(matcher):
            self._warn(where, f"its matcher {visible(str(matcher))} is not a regular expression")
            return []
        handlers = [
            self._handler(event, number, index, matcher, handler)
            for index, handler in enumerate(group.get("hooks", []))
        ]
        return [hook for hook in handlers if hook is not None]

    def _handler(self, event: str, number: int, index: int, matcher: str | None, handler: Any) -> Hook | None:
        where = f"hooks.{event}[{number}].hooks[{index}]"
        self._check(where, handler, _HANDLER)
        kind = handler.get("type")
        if kind != "command":
            self._warn(where, f'type is {visible(str(kind))}, and only "command" is supported')
            return None
        command = handler.get("command", "")
        if not command.strip():
            self._warn(where, "it has no command")
            return None
        is_confined = handler.get("sandbox", True)
        if not is_confined and self._table.source == "project":
            self._warn(where, "a project's hooks cannot run outside of the sandbox (sandbox = false)")
            return None
        hook = Hook(
            key=f"{self._table.path}:{snake(event)}:{number}:{index}",
            event=event,
            command=command,
            path=self._table.path,
            source=self._table.source,
            hash="",
            matcher=matcher,
            timeout_s=self._timeout(event, where, handler.get("timeout")),
            is_async=handler.get("async", False),
            status_message=handler.get("statusMessage"),
            context_tokens=handler.get("additionalContextLimit"),
            is_confined=is_confined,
        )
        return self._judged(msgspec.structs.replace(hook, hash=definition_hash(hook)))

    def _timeout(self, event: str, where: str, given: int | None) -> int:
        if event != "SessionEnd":
            return DEFAULT_TIMEOUT_S if given is None else max(1, given)
        if given is not None and given > LAST_WORDS_MAX_S:
            self._warnings.append(
                f"{self._label}: {where}.timeout is {LAST_WORDS_MAX_S}: nobody waits longer at the end"
            )
        return LAST_WORDS_S if given is None else min(max(1, given), LAST_WORDS_MAX_S)

    def _judged(self, hook: Hook) -> Hook:
        """Whether it may run: what stands in the user's own files is theirs, a project's hook needs their consent."""
        state = entry if isinstance(entry := self._state.get(hook.key), dict) else {}
        trust: Trust = "trusted"
        if hook.source == "project" and not self._skips_consent and (given := state.get("trusted_hash")) != hook.hash:
            trust = "untrusted" if given is None else "modified"
        return msgspec.structs.replace(hook, trust=trust, is_enabled=state.get("enabled") is not False)

    def _check(self, where: str, value: Any, kinds: Mapping[str, type]) -> None:
        if not isinstance(value, dict):
            raise self._wrong(where, value, f"a table: {_SENTENCE}")
        for key, kind in kinds.items():
            if (given := value.get(key)) is not None and type(given) is not kind:
                wanted = {str: "a string", int: "an integer", bool: "true or false", list: "an array of tables"}[kind]
                raise self._wrong(f"{where}.{key}", given, wanted)

    def _wrong(self, where: str, value: Any, wanted: str) -> ConfigError:
        return ConfigError(f"{self._label}: {where} must be {wanted}, found {describe(value)}")

    def _warn(self, where: str, why: str) -> None:
        self._warnings.append(f"{self._label}: {where} is ignored: {why}")


def definition_hash(hook: Hook) -> str:
    """The hash of everything a hook's definition says. Keys that only Spindle knows change it, too."""
    handler: dict[str, Any] = {
        "type": "command",
        "command": hook.command,
        "timeout": hook.timeout_s,
        "async": hook.is_async,
    }
    if hook.status_message is not None:
        handler["statusMessage"] = hook.status_message
    if hook.context_tokens is not None:
        handler["additionalContextLimit"] = hook.context_tokens
    if not hook.is_confined:
        handler["sandbox"] = False
    identity: dict[str, Any] = {"event_name": snake(hook.event), "hooks": [handler]}
    if hook.matcher is not None:
        identity["matcher"] = hook.matcher
    return f"sha256:{hashlib.sha256(msgspec.json.encode(identity, order='sorted')).hexdigest()}"


def _warn_about_consent(hooks: Sequence[Hook], warnings: list[str]) -> None:
    for path in dict.fromkeys(hook.path for hook in hooks if hook.is_enabled and hook.trust != "trusted"):
        waiting = [hook for hook in hooks if hook.path == path and hook.is_enabled and hook.trust != "trusted"]
        changed = ", changed since you agreed to them" if any(hook.trust == "modified" for hook in waiting) else ""
        names = ", ".join(dict.fromkeys(hook.event for hook in waiting))
        warnings.append(
            f"{shown(path)}: hooks that you have not agreed to do not run ({names}{changed}); "
            "`spindle hooks list` shows them, `spindle hooks trust` lets them run"
        )
