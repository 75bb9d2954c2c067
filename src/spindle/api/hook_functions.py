"""Python functions as hooks: `hooks={"PreToolUse": [fn, HookMatcher("Bash", fn)], …}` → what the engine asks.

Events, input and answer are those of docs/hooks.md. A plain function runs in a thread of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from spindle.api.workers import Outcome, outcome_in_thread, outcome_on_loop
from spindle.policy.hook_answers import is_readable
from spindle.protocol.hook_records import (
    DEFAULT_TIMEOUT_S,
    EVENTS,
    LAST_WORDS_MAX_S,
    LAST_WORDS_S,
    MATCHED,
    Hook,
    HookFunction,
    snake,
)

HookAnswer = dict[str, Any] | str | None
HookCallback = Callable[[dict[str, Any]], HookAnswer | Awaitable[HookAnswer]]
_SENTENCE = "hooks is a dict from the name of an event to a list of functions and HookMatchers"


class HookMatcher(msgspec.Struct, frozen=True):
    """A hook for some of an event's sorts only: `HookMatcher("Bash", fn)` is asked about commands.

    The matcher is the one of docs/hooks.md: plain words with `|` between them are whole names, anything else is a
    regular expression; None, "" and "*" fit all. `timeout` is in seconds.
    """

    matcher: str | None
    function: HookCallback
    timeout: float | None = None


def function_hooks(given: Mapping[str, Sequence[HookCallback | HookMatcher]]) -> tuple[Hook, ...]:
    """The hooks that a program gives. Raises ValueError for what cannot be one."""
    hooks: list[Hook] = []
    for event, entries in given.items():
        if event not in EVENTS:
            raise ValueError(f"hooks: there is no event {event!r}; the events are {', '.join(EVENTS)}")
        if isinstance(entries, str) or not isinstance(entries, Sequence):
            raise ValueError(f"hooks[{event!r}] is {entries!r}; {_SENTENCE}")
        hooks += [_hook(event, number, entry) for number, entry in enumerate(entries)]
    return tuple(hooks)


def _hook(event: str, number: int, entry: Any) -> Hook:
    entry = entry if isinstance(entry, HookMatcher) else HookMatcher(None, entry)
    where = f"hooks[{event!r}][{number}]"
    if not callable(entry.function):
        raise ValueError(f"{where} is {entry.function!r}, which is not a function")
    if not isinstance(entry.matcher, str | None) or not is_readable(entry.matcher):
        raise ValueError(f"{where}: the matcher {entry.matcher!r} is not a regular expression")
    timeout = entry.timeout
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        raise ValueError(f"{where}: timeout is {timeout!r}, but must be a number of seconds above 0")
    if event == "SessionEnd":
        timeout = LAST_WORDS_S if timeout is None else min(timeout, LAST_WORDS_MAX_S)
    name = f"{getattr(entry.function, '__module__', '')}.{getattr(entry.function, '__qualname__', 'function')}"
    return Hook(
        key=f"{name}:{snake(event)}:0:{number}",
        event=event,
        function=_called(entry.function, name),
        path=name,
        source="user",
        hash="",
        matcher=entry.matcher if event in MATCHED else None,
        timeout_s=DEFAULT_TIMEOUT_S if timeout is None else timeout,
        order=number,
    )


def _called(function: Callable[..., Any], name: str) -> HookFunction:
    async def call(data: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(function):
            return _value(await outcome_on_loop(lambda: function(data)))
        said = _value(await outcome_in_thread(lambda: function(data), name))
        return _value(await outcome_on_loop(lambda: said)) if inspect.isawaitable(said) else said

    return call


def _value(outcome: Outcome) -> Any:
    """What was said. An exit out of a hook is a hook that failed, no more: it ran in a thread or on a loop."""
    error = outcome.error
    if error is None:
        return outcome.value
    if isinstance(error, Exception):
        raise error
    raise RuntimeError(f"it ended with {type(error).__name__}") from error
