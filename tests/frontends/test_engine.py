"""The queue pair behind `spindle proto`, where no client gets: a thread that breaks down."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.config.load import load_config
from spindle.core.stream import EventStream
from spindle.frontends.proto.engine import Engine
from spindle.model.scripted import ScriptedModel
from spindle.protocol.events import Error, SessionConfigured, ShutdownComplete
from spindle.protocol.ops import ConfigureSession, Shutdown, Submission


class Unclosable(ScriptedModel):
    async def aclose(self) -> None:
        raise RuntimeError("the connection cannot be closed")


async def test_an_engine_outlives_a_thread_that_breaks_down(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "codex-home").mkdir()
    env = {"CODEX_HOME": str(tmp_path / "codex-home"), "HOME": str(tmp_path)}
    config = load_config(cwd=str(workspace), env=env, flags={"model": "gpt-5.2-codex"})
    models = [Unclosable(), ScriptedModel()]

    async def open_for(op: ConfigureSession, stream: EventStream) -> OpenThread:
        client = models.pop(0)
        return await open_thread(
            SessionRequest(config=config, source="cli", originator="test", client=client, stream=stream)
        )

    engine = Engine(open_for, wait_configure=True)
    events = engine.subscribe()
    for sub_id, op in (("1", ConfigureSession()), ("2", ConfigureSession()), ("3", Shutdown())):
        engine.submit(Submission(sub_id, op))
    await asyncio.wait_for(engine.run(), 20)
    told = [(event.id, type(event.msg)) async for event in events]
    assert told == [("1", SessionConfigured), ("", Error), ("2", SessionConfigured), ("3", ShutdownComplete)]
