"""A sub-task in a context of its own: it costs the caller's context one text, whatever it took to get it.

For programs that have a model and perhaps tools, but no agent. Those of the agent are sessions, see docs/agents.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from spindle.context.tokens import estimate_tokens
from spindle.context.truncate import truncate_text
from spindle.protocol.items import Item, is_call, item_text, output_for, user_message

RunCall = Callable[[Item], Awaitable[str]]
"""Answers a call item with the text of its output."""


class TaskAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answered: finished items, and the tokens the request cost."""

    items: list[Item]
    tokens: int = 0


class TaskModel(Protocol):
    """All that `isolate` needs of a model."""

    async def respond(self, items: list[Item]) -> TaskAnswer: ...


class IsolationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a sub-task took. `tokens_inside` is its context in the end, `tokens_outside` what the caller's grows by."""

    requests: int
    tokens: int
    tokens_inside: int
    tokens_outside: int
    stopped_by: str = ""
    """"max_tokens" or "max_requests" when the budget ended it."""

    def __str__(self) -> str:
        return f"isolated, {self.tokens_inside:,} → {self.tokens_outside:,} tokens in {self.requests} requests"


async def isolate(
    task: str,
    model: TaskModel,
    *,
    context: Sequence[Item] = (),
    run_call: RunCall | None = None,
    max_tokens: int = 0,
    max_requests: int = 0,
    max_result_tokens: int = 0,
) -> tuple[str, IsolationReport]:
    """Let the model work on `task` until it makes no more calls; its last message, and what it took.

    `context` are items that stand before the task. `run_call` runs what it calls; a failure becomes the output, and
    without it every call is told that there are no tools. The budget is asked before each request: 0 = no limit.
    """
    items: list[Item] = [*context, user_message(task)]
    result, requests, spent, stopped_by = "", 0, 0, ""
    while True:
        if max_requests and requests >= max_requests:
            stopped_by = "max_requests"
        elif max_tokens and spent >= max_tokens:
            stopped_by = "max_tokens"
        if stopped_by:
            break
        answer = await model.respond(list(items))
        requests, spent = requests + 1, spent + answer.tokens
        items += answer.items
        said = [item_text(item) for item in answer.items if item.get("type") == "message"]
        result = said[-1] if said else result
        calls = [item for item in answer.items if is_call(item)]
        if not calls:
            break
        items += [output_for(call, await _output(call, run_call)) for call in calls]
    if max_result_tokens:
        result = truncate_text(result, "tokens", max_result_tokens)[0]
    return result, IsolationReport(
        requests=requests,
        tokens=spent,
        tokens_inside=sum(map(estimate_tokens, items)),
        tokens_outside=estimate_tokens(user_message(result)),
        stopped_by=stopped_by,
    )


async def _output(call: Item, run_call: RunCall | None) -> str:
    if run_call is None:
        return "there are no tools here"
    try:
        return await run_call(call)
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
