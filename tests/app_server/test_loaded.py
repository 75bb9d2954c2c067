"""A loaded thread where no client gets: what comes first there, and one that breaks down when it is closed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

from spindle.api.door import SessionRequest, open_thread
from spindle.config.load import load_config
from spindle.frontends.app_server.connection import Connection
from spindle.frontends.app_server.loaded import LoadedThread
from spindle.frontends.app_server.notifications import Note
from spindle.frontends.app_server.outbox import Outbox
from spindle.frontends.app_server.questions import Questions
from spindle.model.scripted import Asked, ScriptedModel, Step, says
from spindle.protocol.clock import SystemClock
from spindle.protocol.ops import UserTurn


class Unclosable(ScriptedModel):
    async def aclose(self) -> None:
        raise RuntimeError("the connection cannot be closed")


async def test_a_thread_that_breaks_down_is_put_away_like_any_other(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "codex-home").mkdir()
    env = {"CODEX_HOME": str(tmp_path / "codex-home"), "HOME": str(tmp_path)}
    config = load_config(cwd=str(workspace), env=env, flags={"model": "gpt-5.2-codex"})
    request = SessionRequest(config=config, source="vscode", originator="test", client=Unclosable())
    clock = SystemClock()
    loaded = LoadedThread(await open_thread(request), config, Questions(clock), clock)
    await asyncio.wait_for(loaded.close(), 20)
    assert [event async for event in loaded.hearing] == []


class Follower:
    """A client's connection, and what has been written to it."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.outbox = Outbox(self._write)
        self.writer = asyncio.ensure_future(self.outbox.run())

    async def _write(self, lines: list[bytes]) -> None:
        self.written += [json.loads(line)["method"] for line in lines]

    def notify(self, note: Note, now_ms: int) -> None:
        self.outbox.tell(note, now_ms)


async def test_a_client_has_what_a_person_said_before_the_model_is_asked(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "codex-home").mkdir()
    env = {"CODEX_HOME": str(tmp_path / "codex-home"), "HOME": str(tmp_path)}
    config = load_config(cwd=str(workspace), env=env, flags={"model": "gpt-5.2-codex"})
    follower, known = Follower(), list[list[str]]()

    def answer(asked: Asked) -> Step:
        known.append(list(follower.written))
        return says("hello")

    request = SessionRequest(config=config, source="vscode", originator="test", client=ScriptedModel(answer))
    clock = SystemClock()
    loaded = LoadedThread(await open_thread(request), config, Questions(clock), clock)
    loaded.followers.add(cast(Connection, follower))
    loaded.start_turn(UserTurn(items=[{"type": "text", "text": "hi"}]))
    await asyncio.wait_for(loaded.hearing.turn_end(), 20)
    (told,) = known
    assert [method for method in told if method.startswith(("turn/", "item/"))] == [
        "turn/started",
        "item/started",
        "item/completed",
    ]
    await asyncio.wait_for(loaded.close(), 20)
    follower.outbox.close()
    await follower.writer
