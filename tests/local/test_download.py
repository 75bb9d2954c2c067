"""Models from an address: redirects, downloads that break off, and answers that are no model."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from local.tiny_model import write_model
from spindle.errors import ConfigError
from spindle.local import download as module
from spindle.local.download import download
from spindle.local.store import LocalModel, ModelStore
from spindle.model.url import Url, parse_url

Answer = Callable[[dict[str, str], int], bytes]
"""From the headers of a request, and which one it is, to the whole of the answer."""


class FileServer:
    """Answers each path with what `paths` says, and remembers what was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.paths: dict[str, Answer] = {}
        self.asked: list[tuple[str, str]] = []
        """Path, and the range that was asked for."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        self.asked.append((path, fields.get("range", "")))
        writer.write(self.paths[path](fields, len(self.asked)))
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def server() -> AsyncIterator[FileServer]:
    found = FileServer()
    listening = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    yield found
    listening.close()
    await listening.wait_closed()


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    return write_model(tmp_path / "source.gguf").read_bytes()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    return ModelStore(str(tmp_path / "home"))


def reply(status: int, body: bytes = b"", **headers: object) -> bytes:
    fields = {"content_length": len(body), "connection": "close", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + body


def ranged(whole: bytes, *, cut_at: int = 1 << 60) -> Answer:
    """Gives the rest of the file from where it is asked for; the first answer breaks off after `cut_at` bytes."""

    def answer(fields: dict[str, str], number: int) -> bytes:
        start = int(fields.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if start >= len(whole):
            return reply(416, content_range=f"bytes */{len(whole)}")
        sent = whole[start:cut_at] if number == 1 else whole[start:]
        told = {"content_range": f"bytes {start}-{len(whole) - 1}/{len(whole)}"} if start else {}
        return reply(206 if start else 200, sent, content_length=len(whole) - start, **told)

    return answer


async def get(store: ModelStore, address: str, wanted: str | None = None) -> LocalModel:
    return await download(store, address, "tiny", wanted, {}, lambda done, total: None)


async def test_a_file_is_followed_to_where_it_is(server: FileServer, store: ModelStore, whole: bytes) -> None:
    server.paths = {
        "/a": lambda *_: reply(302, location="/b?x=1"),
        "/b?x=1": lambda *_: reply(307, location=f"{server.url}/c"),
        "/c": ranged(whole),
    }
    model = await get(store, f"{server.url}/a", hashlib.sha256(whole).hexdigest())
    assert Path(model.path).read_bytes() == whole and model.source.endswith("/a")


async def test_a_download_that_broke_off_goes_on_where_it_stopped(
    server: FileServer, store: ModelStore, whole: bytes
) -> None:
    server.paths = {"/m": ranged(whole, cut_at=5_000)}
    model = await get(store, f"{server.url}/m", hashlib.sha256(whole).hexdigest())
    assert Path(model.path).read_bytes() == whole
    assert server.asked == [("/m", ""), ("/m", "bytes=5000-")]


async def test_a_server_that_gives_less_than_the_rest_is_asked_for_what_is_missing(
    server: FileServer, store: ModelStore, whole: bytes
) -> None:
    """Each answer is whole in itself, and the file is not."""

    def piece(fields: dict[str, str], number: int) -> bytes:
        start = int(fields.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        end = len(whole) if number == 3 else start + 5_000
        return reply(206, whole[start:end], content_range=f"bytes {start}-{end - 1}/{len(whole)}")

    server.paths = {"/m": piece}
    model = await get(store, f"{server.url}/m", hashlib.sha256(whole).hexdigest())
    assert Path(model.path).read_bytes() == whole
    assert server.asked == [("/m", ""), ("/m", "bytes=5000-"), ("/m", "bytes=10000-")]


async def test_a_part_that_was_not_asked_for_is_not_taken(server: FileServer, store: ModelStore, whole: bytes) -> None:
    elsewhere = reply(206, whole[7:], content_range=f"bytes 7-{len(whole) - 1}/{len(whole)}")
    server.paths = {"/m": lambda fields, number: elsewhere if number == 1 else ranged(whole)(fields, number)}
    model = await get(store, f"{server.url}/m", hashlib.sha256(whole).hexdigest())
    assert Path(model.path).read_bytes() == whole


async def test_the_next_command_goes_on_with_it_only_if_the_checksum_can_tell(
    server: FileServer, store: ModelStore, whole: bytes
) -> None:
    sha256 = hashlib.sha256(whole).hexdigest()
    for wanted, expected in ((sha256, "bytes=7-"), (None, "")):
        draft = store.draft("tiny")
        draft.append(whole[:7])
        draft.close()
        server.paths, server.asked = {"/m": ranged(whole)}, []
        await get(store, f"{server.url}/m", wanted)
        assert server.asked == [("/m", expected)]
        assert store.remove("tiny").sha256 == sha256


async def test_a_server_without_ranges_begins_anew(server: FileServer, store: ModelStore, whole: bytes) -> None:
    server.paths = {
        "/m": lambda _, number: reply(200, whole[:9000] if number == 1 else whole, content_length=len(whole))
    }
    assert Path((await get(store, f"{server.url}/m")).path).read_bytes() == whole


async def test_one_that_is_there_already_in_full_is_only_checked(
    server: FileServer, store: ModelStore, whole: bytes
) -> None:
    draft = store.draft("tiny")
    draft.append(whole)
    draft.close()
    server.paths = {"/m": ranged(whole)}
    model = await get(store, f"{server.url}/m", hashlib.sha256(whole).hexdigest())
    assert Path(model.path).read_bytes() == whole and len(server.asked) == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(404), "gives no file: the server answered with status 404"),
        (reply(200, b"<html>", content_type="text/html"), "gives no GGUF file but text/html; take the address of the"),
        (reply(302, location="/m"), "leads from one address to the next"),
        (reply(302, location="ftp://x/"), "must begin with http"),
        (reply(200, b"GGUF", content_length=1 << 49), "has no room for it"),
        (reply(200, b"GGUF", content_length=5000), "broke off: the server closed the connection in the middle"),
    ],
)
async def test_what_gives_no_model_is_said(server: FileServer, store: ModelStore, answer: bytes, reason: str) -> None:
    server.paths = {"/m": lambda *_: answer}
    with pytest.raises(ConfigError) as raised:
        await get(store, f"{server.url}/m")
    assert reason in str(raised.value)
    assert store.all() == []


async def test_another_file_is_thrown_away(server: FileServer, store: ModelStore, whole: bytes) -> None:
    server.paths = {"/m": ranged(whole)}
    with pytest.raises(ConfigError, match="is not the requested file"):
        await get(store, f"{server.url}/m", "1" * 64)
    assert os.listdir(store.folder) == []


async def test_an_address_without_encryption_needs_a_checksum(store: ModelStore) -> None:
    with pytest.raises(ConfigError, match=r"is not encrypted.*--sha256"):
        await get(store, "http://models.example/m.gguf")


class LeadsAway:
    """A client whose every server leads to the same place."""

    def __init__(self, place: str) -> None:
        self.status, self.headers = 302, {"location": place}
        self.asked: list[str] = []

    async def request(self, method: str, url: Url, headers: dict[str, str], *, timeout_s: float) -> LeadsAway:
        self.asked.append(str(url))
        return self

    def close(self) -> None:
        pass


async def test_a_file_that_is_behind_encryption_is_not_taken_from_elsewhere_without() -> None:
    http = LeadsAway("http://models.example/file.gguf")
    with pytest.raises(ConfigError, match="which is not encrypted"):
        await module._open(http, parse_url("https://models.example/file.gguf"), 0)  # pyright: ignore[reportArgumentType]
    assert http.asked == ["https://models.example/file.gguf"]
