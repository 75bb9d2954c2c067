"""Getting a model that a server on this computer lacks: Ollama is asked for it, for LM Studio its program is run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from spindle.config.oss import server_root
from spindle.errors import ConfigError, SpindleError
from spindle.model.connection import TransportError
from spindle.model.http import HttpClient, Response
from spindle.model.provider import Provider
from spindle.model.server_words import one_line, read_words
from spindle.model.url import parse_url
from spindle.protocol.items import decode_foreign

_SILENCE_S = 600.0
"""Ollama tells of every little progress, but checks a large file without a word."""
_LAST_S = 10.0
_MAX_LINE_BYTES = 1 << 20
_MAX_PARTS = 10_000


class Progress(msgspec.Struct, frozen=True):
    """How far a download is; `total` 0 while nothing is known."""

    doing: str
    completed: int = 0
    total: int = 0


Tell = Callable[[Progress], None]


async def pull_from_ollama(provider: Provider, model: str, environ: Mapping[str, str], tell: Tell) -> None:
    """Have Ollama download the model. Raises ConfigError with the reason when it cannot."""
    http = HttpClient(environ=environ)
    body = msgspec.json.encode({"model": model, "stream": True})
    headers = {"accept": "application/x-ndjson", "content-type": "application/json"}
    parts: dict[str, tuple[int, int]] = {}
    try:
        url = parse_url(f"{server_root(provider)}/api/pull", "the local model server")
        response = await http.request("POST", url, headers, body, timeout_s=_SILENCE_S)
        if not 200 <= response.status < 300:
            words = read_words(await response.read(_MAX_LINE_BYTES, _SILENCE_S), response.headers)
            raise _failed(model, words.text or f"status {response.status}")
        async for line in _lines(response):
            if error := line.get("error"):
                raise _failed(model, one_line(str(error)))
            doing = line.get("status")
            doing = one_line(doing) if isinstance(doing, str) else ""
            _note_part(line, parts)
            completed, total = (sum(part[place] for part in parts.values()) for place in (0, 1))
            tell(Progress(doing, completed, total))
            if doing == "success":
                # Ollama has the model when its answer has ended, not a moment before.
                with suppress(TransportError):
                    await response.read(_MAX_LINE_BYTES, _LAST_S)
                return
    except ConfigError:
        raise
    except SpindleError as error:
        raise _failed(model, str(error)) from error
    finally:
        await http.aclose()
    raise _failed(model, "the answer ended before the model was there; what was pulled is kept, so try again")


async def get_for_lm_studio(model: str, environ: Mapping[str, str]) -> None:
    """Have `lms`, the program of LM Studio, download the model; its own progress is shown on stderr."""
    program = _find_lms(environ)
    if program is None or model.startswith("-"):
        raise ConfigError(
            f"LM Studio does not have the model {model}: get it with `lms get {model}`, or in the app, or choose "
            "another with -m"
        )
    done = await asyncio.create_subprocess_exec(
        program, "get", "--yes", model, stdin=asyncio.subprocess.DEVNULL, stdout=2, stderr=2
    )
    try:
        code = await done.wait()
    except asyncio.CancelledError:
        done.terminate()
        await done.wait()
        raise
    if code != 0:
        raise ConfigError(f"`lms get --yes {model}` failed with exit code {code}: get the model in LM Studio itself")


def _failed(model: str, reason: str) -> ConfigError:
    return ConfigError(
        f"Ollama could not pull the model {model}: {reason.rstrip('.')}. Check the name at https://ollama.com/library, "
        f"or try it yourself with `ollama pull {model}`."
    )


async def _lines(response: Response) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of a stream with one in each line; other lines are skipped."""
    loop = asyncio.get_running_loop()
    rest = b""
    while data := await response.chunk(loop.time() + _SILENCE_S):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            raise SpindleError("a line of its answer is too long")
        for line in lines:
            if (value := _object(line)) is not None:
                yield value
    if (value := _object(rest)) is not None:
        yield value


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = decode_foreign(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _note_part(line: Mapping[str, Any], parts: dict[str, tuple[int, int]]) -> None:
    digest, total, completed = line.get("digest"), line.get("total"), line.get("completed", 0)
    if not isinstance(digest, str) or (digest not in parts and len(parts) >= _MAX_PARTS):
        return
    if isinstance(total, int) and isinstance(completed, int) and 0 <= completed <= total < 1 << 53:
        parts[digest] = completed, total


def _find_lms(environ: Mapping[str, str]) -> str | None:
    from spindle.process.lookup import find_installed  # only when a model is missing

    home = environ.get("HOME") or "~"
    own = os.path.expanduser(f"{home}/.lmstudio/bin/lms")
    return find_installed("lms", environ) or (own if os.access(own, os.X_OK) else None)
