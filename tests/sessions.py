"""A session with a scripted model, as tests hold it: prompts in, events and requests out; and what is said of both."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Protocol, TypeVar

from spindle.core.session import Session
from spindle.core.stream import Subscription
from spindle.model.scripted import AnyStep, ScriptedModel, Step, calls
from spindle.protocol.events import TERMINAL, Event, Msg
from spindle.protocol.ops import Op, Shutdown, Submission, UserTurn

Item = dict[str, Any]
Kind = TypeVar("Kind", bound=Msg)


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

    async def until(self, *kinds: type[Kind], sub_id: str | None = None) -> Kind:
        """The next message of these kinds; everything up to it is in `events` then."""
        while True:
            event = await self.next()
            if isinstance(event.msg, kinds) and sub_id in (None, event.id):
                return event.msg

    async def end_of(self, sub_id: str) -> list[Msg]:
        await self.until(*TERMINAL, sub_id=sub_id)
        return [event.msg for event in self.events if event.id == sub_id]

    async def idle(self) -> list[Msg]:
        """Let everything that is ready happen; the messages that came."""
        begin = len(self.events)
        for _ in range(20):
            await asyncio.sleep(0)
        self.events += self._reader.take_ready()
        return [event.msg for event in self.events[begin:]]

    @property
    def inputs(self) -> list[list[Item]]:
        """What each request so far had as its input."""
        return [request.input for request in self.model.requests]

    async def close(self) -> None:
        self.submit(Shutdown())
        await asyncio.wait_for(self._actor, 20)


class Start(Protocol):
    """The fixture `start`: opens a session on the workspace, which is closed when the test ends."""

    async def __call__(
        self,
        *steps: AnyStep,
        sandbox: str | None = "danger-full-access",
        approval: str = "never",
        config: dict[str, Any] | None = None,
        model: str = "gpt-5.2-codex",
        cwd: Path | None = None,
        **request: Any,
    ) -> Driver:
        """`steps` are what the model answers, `request` more fields of the `SessionRequest`."""
        ...


# ---- what a model does, and what a person sends ------------------------------------------------------


def run(cmd: str, call_id: str = "c1", **arguments: Any) -> Step:
    """The model runs a command."""
    return calls("exec_command", {"cmd": cmd, **arguments}, call_id)


def text(words: str) -> list[Item]:
    """Words of a person, as the items of an input."""
    return [{"type": "text", "text": words}]


# ---- what came of it ---------------------------------------------------------------------------------


def tags(msgs: list[Msg]) -> list[str]:
    """The kinds of the messages, as they are named on the wire."""
    return [str(type(msg).__struct_config__.tag) for msg in msgs]


def of(msgs: list[Msg], *kinds: type[Kind]) -> list[Kind]:
    """The messages of these kinds."""
    return [msg for msg in msgs if isinstance(msg, kinds)]


def only(msgs: list[Msg], kind: type[Kind]) -> Kind:
    """The one message of this kind."""
    (found,) = of(msgs, kind)
    return found


def texts(items: list[Item]) -> list[str]:
    """The text of each message among the items."""
    return ["".join(part.get("text", "") for part in item["content"]) for item in items if item["type"] == "message"]


def outputs(items: list[Item]) -> dict[str, Any]:
    """What the tools answered, by call id."""
    return {item["call_id"]: item["output"] for item in items if item["type"].endswith("_output")}
