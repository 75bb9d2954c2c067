"""`thread/queue/…`: input that waits until the turns before it are complete."""

from __future__ import annotations

from spindle.frontends.app_server.method import After, Call, Method, Nothing
from spindle.frontends.app_server.methods.turns import TurnStartResult, check_input
from spindle.frontends.app_server.objects import UserInput, Wire
from spindle.frontends.app_server.queues import QueuedSubmission, changed
from spindle.frontends.app_server.rpc import RpcError
from spindle.frontends.app_server.threads import page


class QueueAddParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    input: list[UserInput]
    client_user_message_id: str


class QueueEntryResult(Wire, frozen=True, kw_only=True):
    queued_submission: QueuedSubmission


class QueueListParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    cursor: str | None = None
    limit: int | None = None


class QueueListResult(Wire, frozen=True, kw_only=True):
    data: list[QueuedSubmission]
    next_cursor: str | None


class QueueUpdateParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    queued_submission_id: str
    input: list[UserInput]


class QueueDeleteParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    queued_submission_id: str


class QueueDeleteResult(Wire, frozen=True, kw_only=True):
    deleted: bool


class QueueReorderParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    queued_submission_ids: list[str]


class QueueStartParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    queued_submission_id: str | None = None


async def queue_add(call: Call, params: QueueAddParams) -> After:
    thread = await call.server.ready(params.thread_id)
    if not params.input:
        raise RpcError("only user input can be added to the user-message queue")
    check_input(params.input)
    entry = QueuedSubmission(
        id=call.server.clock.uuid7(), input=params.input, client_user_message_id=params.client_user_message_id
    )
    call.server.queues.add(thread, entry)
    return After(QueueEntryResult(queued_submission=entry), lambda: call.server.queues.tell(thread.id))


async def queue_list(call: Call, params: QueueListParams) -> Wire:
    queue = _queue(call, params.thread_id)
    limit = 25 if params.limit is None else params.limit
    keys = [entry.id for entry in queue]
    chosen, following, _ = page(queue, keys, cursor=params.cursor, limit=limit, descending=False)
    return QueueListResult(data=chosen, next_cursor=following)


def _queue(call: Call, thread_id: str) -> list[QueuedSubmission]:
    """What waits in a thread; a thread that nobody knows is an error and no empty queue."""
    queue = call.server.queues.of(thread_id)
    if not queue and thread_id not in call.server.threads:
        call.server.store.get(thread_id)
    return queue


def _find(queue: list[QueuedSubmission], entry_id: str) -> QueuedSubmission:
    entry = next((entry for entry in queue if entry.id == entry_id), None)
    if entry is None:
        raise RpcError(f"queued submission not found: {entry_id}")
    return entry


async def queue_update(call: Call, params: QueueUpdateParams) -> Wire:
    queue = _queue(call, params.thread_id)
    entry = _find(queue, params.queued_submission_id)
    check_input(params.input)
    new = changed(entry, params.input)
    call.server.queues.put(params.thread_id, [new if other is entry else other for other in queue])
    return QueueEntryResult(queued_submission=new)


async def queue_delete(call: Call, params: QueueDeleteParams) -> Wire:
    queue = _queue(call, params.thread_id)
    left = [entry for entry in queue if entry.id != params.queued_submission_id]
    if len(left) != len(queue):
        call.server.queues.put(params.thread_id, left)
    return QueueDeleteResult(deleted=len(left) != len(queue))


async def queue_reorder(call: Call, params: QueueReorderParams) -> Wire:
    queue = {entry.id: entry for entry in _queue(call, params.thread_id)}
    if sorted(params.queued_submission_ids) != sorted(queue):
        raise RpcError("queue reorder must include every queued submission exactly once")
    call.server.queues.put(params.thread_id, [queue[entry_id] for entry_id in params.queued_submission_ids])
    return Nothing()


async def queue_start(call: Call, params: QueueStartParams) -> Wire:
    """Start what waits without waiting longer: the first of the queue, or the one that is named."""
    queue = _queue(call, params.thread_id)
    if not queue:
        raise RpcError("queue is empty")
    entry = queue[0] if params.queued_submission_id is None else _find(queue, params.queued_submission_id)
    return TurnStartResult(turn=await call.server.queues.start(params.thread_id, entry))


METHODS = tuple(
    Method(name=f"thread/queue/{name}", params=params, result=result, run=run, is_experimental=True)
    for name, params, result, run in (
        ("add", QueueAddParams, QueueEntryResult, queue_add),
        ("list", QueueListParams, QueueListResult, queue_list),
        ("update", QueueUpdateParams, QueueEntryResult, queue_update),
        ("delete", QueueDeleteParams, QueueDeleteResult, queue_delete),
        ("reorder", QueueReorderParams, Nothing, queue_reorder),
        ("start", QueueStartParams, TurnStartResult, queue_start),
    )
)
