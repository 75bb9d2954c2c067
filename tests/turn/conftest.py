"""A session with a scripted model: prompts in, events and requests out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.assembly import SessionRequest, open_session
from spindle.config.load import load_config
from spindle.core.session import Session
from spindle.core.stream import Subscription
from spindle.model.scripted import AnyStep, ScriptedModel
from spindle.protocol.events import TERMINAL, Event, Msg
from spindle.protocol.ops import Op, Shutdown, Submission, UserTurn


class Driver:
    """One live session and the model that answers it."""

    def __init__(self, session: Session, model: ScriptedModel) -> None:
        self.session = session
        self.model = model
        self.events: list[Event] = []
        self._count = 0
        self._reader: Subscription = session.subscribe()
        self._actor = asyncio.ensure_future(session.run())

    # ---- in ----

    def submit(self, op: Op, sub_id: str | None = None) -> str:
        self._count += 1
        sub_id = sub_id or f"s{self._count}"
        self.session.submit(Submission(sub_id, op))
        return sub_id

    def begin(self, text: str, **fields: Any) -> str:
        return self.submit(UserTurn(items=[{"type": "text", "text": text}], **fields))

    async def turn(self, text: str, *steps: AnyStep, **fields: Any) -> list[Msg]:
        """Script `steps`, send the prompt, and give the turn's messages, the terminal one last."""
        self.model.script(*steps)
        return await self.end_of(self.begin(text, **fields))

    # ---- out ----

    async def next(self) -> Event:
        event = await asyncio.wait_for(self._reader.__anext__(), 20)
        self.events.append(event)
        return event

    async def until(self, *kinds: type[Msg], sub_id: str | None = None) -> Msg:
        while True:
            event = await self.next()
            if isinstance(event.msg, kinds) and sub_id in (None, event.id):
                return event.msg

    async def end_of(self, sub_id: str) -> list[Msg]:
        await self.until(*TERMINAL, sub_id=sub_id)
        return [event.msg for event in self.events if event.id == sub_id]

    async def idle(self) -> list[Msg]:
        """Let everything that is ready happen; the messages that came."""
        start = len(self.events)
        for _ in range(20):
            await asyncio.sleep(0)
        self.events += self._reader.take_ready()
        return [event.msg for event in self.events[start:]]

    @property
    def inputs(self) -> list[list[dict[str, Any]]]:
        return [request.input for request in self.model.requests]

    async def close(self) -> None:
        self.submit(Shutdown())
        await asyncio.wait_for(self._actor, 20)


Opener = Callable[..., Any]


@pytest.fixture
async def start(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opener]:
    """Opens sessions on the workspace; each is closed at the end. Keyword arguments go to SessionRequest or flags."""
    monkeypatch.setenv("HOME", str(tmp_path))  # no profile of the person who runs the tests
    drivers: list[Driver] = []
    home = tmp_path / "codex-home"
    home.mkdir(exist_ok=True)

    async def open_driver(
        *steps: AnyStep,
        sandbox: str | None = "danger-full-access",
        approval: str = "never",
        config: dict[str, Any] | None = None,
        model: str = "gpt-5.2-codex",
        cwd: Path | None = None,
        **request: Any,
    ) -> Driver:
        scripted = ScriptedModel(*steps)
        loaded = load_config(
            cwd=str(cwd or workspace),
            env={"CODEX_HOME": str(home), "HOME": str(tmp_path)},
            flags={"model": model, "approval_policy": approval} | ({"sandbox_mode": sandbox} if sandbox else {}),
            config=config,
        )
        session = await open_session(
            SessionRequest(config=loaded, originator="test", client=scripted, **{"source": "exec", **request})
        )
        drivers.append(Driver(session, scripted))
        return drivers[-1]

    yield open_driver
    for driver in drivers:
        await driver.close()


def tags(msgs: list[Msg]) -> list[str]:
    return [str(type(msg).__struct_config__.tag) for msg in msgs]
