"""A hook that is a function: what it is given, and what its answer or its failure means."""

from __future__ import annotations

import asyncio

import msgspec

from spindle.policy.hook_answers import Answer, cannot_run, failed, read_answer
from spindle.protocol.hook_records import Hook, HookFunction
from spindle.protocol.items import decode_json, encode_payload


async def call_hook(hook: Hook, function: HookFunction, data: bytes) -> Answer:
    """Ask the function. It gets a copy of its own of what a command would read."""
    limit = asyncio.timeout(hook.timeout_s)
    try:
        async with limit:
            said = await function(decode_json(data))
    except TimeoutError as error:
        if limit.expired():
            return cannot_run(hook.event, f"it did not end within {hook.timeout_s:g} s; its answer is not waited for")
        return _failed(error)
    except Exception as error:  # whatever is wrong with it, it is a hook that failed
        return _failed(error)
    if said is None:
        return Answer()
    if isinstance(said, str):
        return read_answer(hook.event, 0, said, "")
    if not isinstance(said, dict):
        return failed(f"its answer is of type {type(said).__name__}, and no dict")
    try:
        text = encode_payload(said).decode()
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        return failed(f"its answer cannot be written as JSON: {error}")
    return read_answer(hook.event, 0, text, "")


def _failed(error: Exception) -> Answer:
    text = str(error)
    return failed(f"{type(error).__name__}: {text}" if text else type(error).__name__)
