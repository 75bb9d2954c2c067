"""`review/start`: have code reviewed, as a turn of a thread or in a separate thread."""

from __future__ import annotations

from typing import Literal

import msgspec

from spindle.errors import SpindleError
from spindle.frontends.app_server.loaded import LoadedThread
from spindle.frontends.app_server.method import Call, Method
from spindle.frontends.app_server.methods.opening import Overrides, open_loaded, request_for
from spindle.frontends.app_server.notifications import ThreadStarted
from spindle.frontends.app_server.objects import TextInput, Turn, UserMessageItem, Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.protocol.ops import Review
from spindle.protocol.review import hint_of, read_target


class UncommittedChanges(Wire, frozen=True, kw_only=True, tag_field="type", tag="uncommittedChanges"):
    pass


class BaseBranch(Wire, frozen=True, kw_only=True, tag_field="type", tag="baseBranch"):
    branch: str


class Commit(Wire, frozen=True, kw_only=True, tag_field="type", tag="commit"):
    sha: str
    title: str | None = None


class Custom(Wire, frozen=True, kw_only=True, tag_field="type", tag="custom"):
    instructions: str


class ReviewStartParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    target: UncommittedChanges | BaseBranch | Commit | Custom
    delivery: Literal["inline", "detached"] | None = None
    """Where the review goes: into the thread itself, or into a new one. Inline when left out."""


class ReviewStartResult(Wire, frozen=True, kw_only=True):
    turn: Turn
    review_thread_id: str


async def review_start(call: Call, params: ReviewStartParams) -> Wire:
    thread = await call.server.ready(params.thread_id)
    try:
        target = read_target(msgspec.to_builtins(params.target))
    except SpindleError as error:
        raise RpcError(str(error)) from error
    is_detached = params.delivery == "detached"
    if not is_detached and thread.hearing.active_turn is not None:
        raise RpcError("a turn is running; interrupt it, wait for its end, or have the review made `detached`")
    hint = hint_of(target)
    wanted = {"target": msgspec.to_builtins(target), "user_facing_hint": hint}
    reviewed = await _thread_beside(call, thread) if is_detached else thread
    if is_detached:
        call.server.tell_all(ThreadStarted(thread=call.server.describe(reviewed)))  # before what happens in it
    turn_id = reviewed.start_turn(Review(review_request=wanted), takes_no_input=True)
    asked = UserMessageItem(id=turn_id, content=[TextInput(text=hint)])
    turn = Turn(id=turn_id, root_turn_id=turn_id, items=[asked], items_view="full")
    return ReviewStartResult(turn=turn, review_thread_id=reviewed.id)


async def _thread_beside(call: Call, thread: LoadedThread) -> LoadedThread:
    """A new thread with the settings that the other one has now."""
    now = thread.live.settings
    config = msgspec.structs.replace(
        thread.config,
        cwd=now.cwd,
        model=now.model,
        approval_policy=now.approval_policy,
        granular=now.granular,
        sandbox=now.sandbox,
        model_reasoning_effort=now.effort,
        provider=thread.config.providers.get(now.model_provider, thread.config.provider),
    )
    is_ephemeral = thread.live.path is None
    return await open_loaded(call, request_for(call, Overrides(cwd=now.cwd), config, ephemeral=is_ephemeral))


METHODS = (Method(name="review/start", params=ReviewStartParams, result=ReviewStartResult, run=review_start),)
