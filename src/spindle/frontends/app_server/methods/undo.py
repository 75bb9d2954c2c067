"""`thread/undo`: take back what turns did to files and to the conversation."""

from __future__ import annotations

import msgspec

from spindle.frontends.app_server.method import After, Call, Method
from spindle.frontends.app_server.notifications import ThreadReverted
from spindle.frontends.app_server.objects import Thread, Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.protocol.ops import Undo
from spindle.protocol.undo import UndoCompleted, UndoReport


class UndoParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    turns: int | None = None
    to: str | None = None
    files: bool = True
    conversation: bool = True
    keep_mine: bool = False
    dry_run: bool = False
    redo: bool = False


class UndoResult(Wire, frozen=True, kw_only=True):
    report: UndoReport
    """The same object, with the same names, at every door."""
    thread: Thread


async def thread_undo(call: Call, params: UndoParams) -> After:
    thread = await call.server.ready(params.thread_id)
    if params.turns is not None and params.turns < 1:
        raise RpcError("turns must be at least 1", INVALID_PARAMS)
    if thread.hearing.active_turn is not None:
        raise RpcError("a turn is running; interrupt it first, then undo")
    answer = await thread.ask(Undo(**{name: getattr(params, name) for name in Undo.__struct_fields__}))
    assert isinstance(answer, UndoCompleted)
    report = msgspec.convert(answer.report, UndoReport)
    result = UndoResult(report=report, thread=call.server.describe(thread, with_turns=True))

    def tell() -> None:
        if report.status in ("undone", "redone"):
            call.server.tell_all(ThreadReverted(thread_id=thread.id))

    return After(result, tell)


METHODS = (Method(name="thread/undo", params=UndoParams, result=UndoResult, run=thread_undo),)
