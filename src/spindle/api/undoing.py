"""Undo from outside of a running conversation: of a recorded thread, and what there is to undo in it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from spindle.api.door import SessionRequest, open_thread
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.errors import ModelError
from spindle.features.checkpoints.choosing import ancestors_of, changes_of, with_ancestors
from spindle.features.checkpoints.journal import journal_path, read_state
from spindle.features.checkpoints.pruning import forget_thread
from spindle.features.checkpoints.talk import turns_of
from spindle.features.checkpoints.undoing import shown
from spindle.model.client import ModelEvent, TurnState
from spindle.protocol.events import Warning
from spindle.protocol.items import Item
from spindle.protocol.ops import Undo
from spindle.protocol.request import Request
from spindle.protocol.undo import UndoCompleted
from spindle.thread.history import History
from spindle.thread.store import ThreadRef, ThreadStore


class _NoModel:
    """Nothing is asked of a model here, so nothing is connected to."""

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        raise ModelError("this thread has no model to ask")
        yield

    async def compact(self, request: Request) -> list[Item]:
        raise ModelError("this thread has no model to ask")

    async def warm(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


async def undo_recorded(config: Config, thread_id: str, op: Undo, warn: Callable[[str], None]) -> UndoCompleted:
    """Undo in a recorded thread that nobody has open. Nothing of the person's set-up is started for it."""
    quiet = msgspec.structs.replace(
        config, model=None, mcp_servers={}, hooks=(), notify=(), agent_roles={}, features={}, warnings=[]
    )
    request = SessionRequest(
        config=quiet,
        source="exec",
        originator="codex_exec",
        is_attended=False,
        thread=thread_id,
        client=_NoModel(),
    )
    thread = await open_thread(request)
    hearing = Hearing(thread)
    thread.begin()
    try:
        answer = await hearing.ask(op)
    finally:
        await thread.close()
    async for event in hearing:
        if isinstance(event.msg, Warning):
            warn(event.msg.message)
    assert isinstance(answer, UndoCompleted)
    return answer


def undo_list(store: ThreadStore, ref: ThreadRef) -> list[dict[str, Any]]:
    """The turns of a thread and what each of them did to files, oldest first."""
    history = History.replay(store.read(ref))
    state = read_state(journal_path(store.home, history.thread_id or ref.id))
    with_ancestors(store.home, state, ancestors_of(store, history.meta))
    undone = state.undone
    return [
        {
            "id": turn.id,
            "prompt": turn.prompt,
            "changes": [
                {"path": shown(change.path), "kind": change.kind}
                for change in (() if turn.number in undone else changes_of(state, turn.number))
            ],
        }
        for turn in turns_of(history)
        if not turn.is_dropped and (turn.has_input or turn.prompt)
    ]


def delete_thread(store: ThreadStore, thread_id: str) -> None:
    """Delete a recorded thread for good, with what was kept for undoing its turns."""
    store.delete(thread_id)
    forget_thread(store.home, thread_id)
