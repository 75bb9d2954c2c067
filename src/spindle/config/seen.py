"""Which of the user's own hooks, and which notify program, were there at the last run: a new one is worth a word.

A program that could write the user's files could add one, and it would run by itself. The list lies in the agent's
folder, for nobody else to read. Loaded only for those who have hooks or notify.
"""

from __future__ import annotations

import hashlib
import os

import msgspec

from spindle.config.schema import Config
from spindle.protocol.items import json_reader
from spindle.protocol.quote import shell_join, visible
from spindle.thread.private_files import make_private_folders, replace_private
from spindle.workspace.files import read_regular, shown

_LIMIT = 1 << 20
_ADVICE = "if that was not you, take it out and look at who can write there"
_FROM_FILES = ("user", "system")


def changes_since_last_run(config: Config) -> list[str]:
    """One warning for each that is new or not what it was; from now on it is known."""
    path = f"{config.home}/spindle/seen-hooks.json"
    known = _read(path)
    found = {hook.key: hook.hash for hook in config.hooks if hook.source in _FROM_FILES and hook.is_enabled}
    warnings = [
        f"{shown(hook.path)}: this {hook.event} hook is new or has changed since the last run: "
        f"{visible(hook.command)}; {_ADVICE}"
        for hook in config.hooks
        if hook.key in found and known.get(hook.key) != hook.hash
    ]
    origin = config.origins.get("notify", "-c")
    if config.notify and origin not in ("-c", "command line"):
        key = f"{origin}:notify"
        found[key] = f"sha256:{hashlib.sha256(msgspec.json.encode(config.notify)).hexdigest()}"
        if known.get(key) != found[key]:
            warnings.append(
                f"{origin}: the notify program is new or has changed since the last run: "
                f"{visible(shell_join(config.notify))}; {_ADVICE}"
            )
    if warnings:
        _write(path, known | found, config.home)
    return warnings


def _read(path: str) -> dict[str, str]:
    try:
        return json_reader(dict[str, str])(read_regular(path, _LIMIT))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _write(path: str, seen: dict[str, str], home: str) -> None:
    try:
        make_private_folders(os.path.dirname(path), home)
        replace_private(path, msgspec.json.encode(seen))
    except OSError:
        pass  # the same will be said again
