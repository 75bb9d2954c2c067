"""The file of what refusals have taught about model servers: `$CODEX_HOME/spindle/capabilities.json`.

    {"version": 1, "endpoints": {"WIRE BASE_URL": {"MODEL": {"FLAG": {"value": false, "since": T, "reason": S}}}}}

Loaded only where there is one, or something to put into it. A file that cannot be read teaches nothing, and one that
cannot be written keeps nobody from working.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from spindle.model.provider import FLAGS
from spindle.protocol.items import decode_json, encode_payload
from spindle.thread import private_files

LIFE_S = 30 * 24 * 3600.0
"""Servers are updated: after this long a lesson is forgotten."""
VERSION = 1
NUMBERS = ("output_tokens",)
"""What is learned like a flag, but is a number."""


class Lesson(msgspec.Struct, frozen=True):
    """One flag that was learned, when, and from which words of the server."""

    value: bool | int
    since: float
    reason: str = ""


def read_lessons(data: bytes, now: float) -> dict[tuple[str, str], dict[str, bool | int]]:
    """By endpoint and model, the flags that are not too old."""
    learned: dict[tuple[str, str], dict[str, bool | int]] = {}
    for endpoint, models in _endpoints(data, now).items():
        for model, lessons in models.items():
            learned[endpoint, model] = {flag: lesson["value"] for flag, lesson in lessons.items()}
    return learned


def remember(path: str, endpoint: str, model: str, lessons: Mapping[str, Lesson]) -> None:
    """Add to the file, under a lock, so that two processes do not lose each other's lessons."""
    with suppress(OSError):
        folder = os.path.dirname(path)
        private_files.make_private_folders(folder, folder)
        lock = private_files.open_private(f"{path}.lock", os.O_RDWR | os.O_CREAT)
        try:
            private_files.wait_for_lock(lock)
            now = max(lesson.since for lesson in lessons.values())
            endpoints = _endpoints(_read(path), now)
            endpoints.setdefault(endpoint, {}).setdefault(model, {}).update(msgspec.to_builtins(dict(lessons)))
            private_files.replace_private(path, encode_payload({"version": VERSION, "endpoints": endpoints}) + b"\n")
        finally:
            os.close(lock)


def forget(path: str) -> bool:
    """Remove everything that was learned; false if there was nothing."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _endpoints(data: bytes, now: float) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """What the file holds, without what is damaged, unknown or too old."""
    try:
        whole = decode_json(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    if not isinstance(whole, dict) or whole.get("version") != VERSION:
        return {}
    kept: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for endpoint, models in _entries(whole.get("endpoints")):
        for model, lessons in _entries(models):
            for flag, lesson in _entries(lessons):
                if _is_fresh(lesson, now) and flag in (FLAGS if isinstance(lesson["value"], bool) else NUMBERS):
                    kept.setdefault(endpoint, {}).setdefault(model, {})[flag] = lesson
    return kept


def _entries(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _is_fresh(lesson: Any, now: float) -> bool:
    if not isinstance(lesson, dict) or not isinstance(lesson.get("value"), int):
        return False
    since = lesson.get("since")
    if isinstance(since, str):
        from datetime import datetime  # somebody has edited the file

        try:
            since = datetime.fromisoformat(since).timestamp()
        except ValueError:
            return False
    return isinstance(since, (int, float)) and not isinstance(since, bool) and now - since < LIFE_S
