"""Getting a GGUF file from an address. A download that broke off goes on where it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from spindle.errors import ConfigError
from spindle.local.gguf import MAGIC
from spindle.local.store import STEP_BYTES, Advance, Draft, LocalModel, ModelStore
from spindle.model.connection import TransportError
from spindle.model.http import HttpClient, Response
from spindle.model.server_words import one_line
from spindle.model.url import Url, parse_url

_SILENCE_S = 60.0
_MOST_REDIRECTS = 5
_TRIES = 3
_PAUSE_S = 1.0
_REDIRECTS = (301, 302, 303, 307, 308)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


async def download(
    store: ModelStore, address: str, name: str, wanted: str | None, environ: Mapping[str, str], advance: Advance
) -> LocalModel:
    """Add the file behind an address. Raises ConfigError; what has come stays for the next try."""
    url = parse_url(address, "the address of the model")
    if url.scheme == "http" and url.host not in _LOOPBACK and wanted is None:
        raise ConfigError(
            f"{url} is not encrypted, so anybody on the way could put another file in its place; use https, or say "
            "which file it must be with --sha256"
        )
    draft = store.draft(name)
    http = HttpClient(environ=environ)
    try:
        if wanted is None:
            draft.restart()  # nobody could tell whether what is there and what comes belong together
        await _receive_all(http, url, draft, advance)
        sha256 = await asyncio.to_thread(draft.sha256)
        return store.keep(draft, sha256, str(url), wanted)
    except OSError as error:
        raise ConfigError(f"the model could not be written to {store.folder}: {error.strerror or error}") from error
    finally:
        draft.close()
        await http.aclose()


async def _receive_all(http: HttpClient, url: Url, draft: Draft, advance: Advance) -> None:
    """Ask again when the connection breaks, as long as there is progress."""
    in_vain = 0
    while True:
        before = draft.size
        try:
            await _receive(http, url, draft, advance)
            return
        except TransportError as error:
            in_vain = 0 if draft.size - before >= STEP_BYTES else in_vain + 1
            if error.is_final or in_vain >= _TRIES:
                raise ConfigError(
                    f"the download of {url} broke off: {error}. What has come is kept, and with --sha256 the same "
                    "command goes on with it"
                ) from error
        await asyncio.sleep(_PAUSE_S)


async def _receive(http: HttpClient, url: Url, draft: Draft, advance: Advance) -> None:
    """Get what is missing of the file."""
    response = await _open(http, url, draft.size)
    if response.status == 416 and draft.size:
        # Longer than the file: what is there belongs to another one, or there was nothing left to get.
        response.close()
        if _total(response) == draft.size:
            return
        draft.restart()
        response = await _open(http, url, 0)
    try:
        if response.status not in (200, 206):
            raise ConfigError(f"{url} gives no file: the server answered with status {response.status}")
        if response.status == 200 or _start(response) != draft.size:
            draft.restart()
        if response.status == 206 and draft.size != _start(response):
            raise TransportError("the server did not continue the download at the requested place")
        total = _total(response)
        draft.make_room(total)
        await _append(response, url, draft, total, advance)
    finally:
        response.close()


async def _append(response: Response, url: Url, draft: Draft, total: int, advance: Advance) -> None:
    loop = asyncio.get_running_loop()
    done = draft.size
    while data := await response.chunk(loop.time() + _SILENCE_S):
        if done == 0 and not data.startswith(MAGIC[: len(data)]):
            kind = one_line(response.headers.get("content-type", "")) or "something else"
            raise ConfigError(f"{url} gives no GGUF file but {kind}; take the address of the file itself")
        draft.append(data)
        done += len(data)
        advance(done, total)
    if total and done < total:
        raise TransportError(f"{total - done} bytes are missing")


async def _open(http: HttpClient, url: Url, start: int) -> Response:
    """The answer of the last server that others lead to."""
    first = url
    for _ in range(_MOST_REDIRECTS + 1):
        headers = {"accept": "*/*", "accept-encoding": "identity", **({"range": f"bytes={start}-"} if start else {})}
        response = await http.request("GET", url, headers, timeout_s=_SILENCE_S)
        if response.status not in _REDIRECTS:
            return response
        response.close()
        place = response.headers.get("location", "")
        target = parse_url(url.origin + place if place.startswith("/") and not place.startswith("//") else place)
        if url.scheme == "https" and target.scheme != "https":
            raise ConfigError(f"{first} leads to {target.origin}, which is not encrypted; the file was not taken")
        url = target
    raise ConfigError(f"{first} leads from one address to the next and never to a file")


def _total(response: Response) -> int:
    """How long the whole file is; 0 if the server does not say."""
    length = response.headers.get("content-range", "").rpartition("/")[2] or response.headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) < 16 else 0


def _start(response: Response) -> int:
    """Where the bytes of an answer belong that holds a part of the file."""
    first = response.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
    return int(first) if first.isdecimal() and len(first) < 16 else 0
