"""A model that follows a script. For tests and the demo; keeps the same contract as a model behind a network.

    model = ScriptedModel(calls("exec_command", {"cmd": "ls"}, "c1"), says("done"))

Each step is one response, in order. A list of steps is one response with several items (two calls at once, say);
`thinks` and `waits` belong to the step that follows them. A step may be a function of the request that returns a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

import msgspec

from spindle.errors import ModelError, StreamDropped
from spindle.model.client import (
    Completed,
    Created,
    ItemAdded,
    ItemDone,
    ModelEvent,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
    TurnState,
)
from spindle.protocol.items import Item, decode_json, encode_json
from spindle.protocol.request import Request, TokenUsage

DEFAULT_USAGE = TokenUsage(input_tokens=100, output_tokens=10, total_tokens=110)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing the model does. Made by the functions below."""

    item: Item | None = None
    """The finished item, without its id."""
    streams: str = ""
    """Text that streams and never becomes an item, because the response breaks first."""
    error: ModelError | StreamDropped | None = None
    delay_s: float = 0.0
    """Waited before the step."""
    pace_s: float = 0.0
    """Waited between the pieces of a text."""
    usage: TokenUsage | None = None
    end_turn: bool | None = None


AnyStep = Step | Sequence[Any] | Callable[["Asked"], Any]
"""A step, a list of steps, or a function of the request that returns one of these."""


def says(
    text: str,
    *,
    delay_s: float = 0.0,
    pace_s: float = 0.0,
    usage: TokenUsage | None = None,
    end_turn: bool | None = None,
    phase: str | None = None,
) -> Step:
    """A message."""
    item: Item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    if phase:
        item["phase"] = phase
    return Step(item=item, delay_s=delay_s, pace_s=pace_s, usage=usage, end_turn=end_turn)


def calls(
    name: str, arguments: dict[str, Any] | str, call_id: str, *, delay_s: float = 0.0, usage: TokenUsage | None = None
) -> Step:
    """A function call; arguments given as text are sent as they are, valid or not."""
    text = arguments if isinstance(arguments, str) else encode_json(arguments).decode()
    item: Item = {"type": "function_call", "name": name, "arguments": text, "call_id": call_id}
    return Step(item=item, delay_s=delay_s, usage=usage)


def patches(text: str, call_id: str, *, delay_s: float = 0.0, usage: TokenUsage | None = None) -> Step:
    """A freeform apply_patch call."""
    item: Item = {
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": call_id,
        "name": "apply_patch",
        "input": text,
    }
    return Step(item=item, delay_s=delay_s, usage=usage)


def thinks(summary: str, *, delay_s: float = 0.0, pace_s: float = 0.0) -> Step:
    """A reasoning item, before what follows."""
    item: Item = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": summary}],
        "encrypted_content": f"sealed:{len(summary)}",
    }
    return Step(item=item, delay_s=delay_s, pace_s=pace_s)


def item_of(item: Item, *, delay_s: float = 0.0, usage: TokenUsage | None = None) -> Step:
    """Any other item, verbatim."""
    return Step(item=item, delay_s=delay_s, usage=usage)


def drops(after: str = "", *, delay_s: float = 0.0, retry_after_s: float | None = None) -> Step:
    """The connection breaks; `after` is text that streamed until then."""
    error = StreamDropped(
        "stream disconnected before completion: stream closed before response.completed",
        delay_s=retry_after_s,
        info={"response_stream_disconnected": {"http_status_code": None}},
    )
    return Step(streams=after, error=error, delay_s=delay_s)


def fails(error: ModelError | StreamDropped | str, *, delay_s: float = 0.0) -> Step:
    """The server refuses."""
    return Step(error=ModelError(error) if isinstance(error, str) else error, delay_s=delay_s)


def waits(seconds: float) -> Step:
    """Silence, before what follows."""
    return Step(delay_s=seconds)


class Asked:
    """A request, with its parts as people read them. Everything else of the request is there too."""

    def __init__(self, raw: Request) -> None:
        self.raw = raw
        """The request itself; its parts are serialised."""

    @property
    def input(self) -> list[Item]:
        """The items of the thread."""
        return [decode_json(item) for item in self.raw.input]

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that the model was offered."""
        return decode_json(self.raw.tools)

    @property
    def instructions(self) -> str:
        """What the model was told before all items."""
        return decode_json(self.raw.instructions)

    def to_dict(self) -> dict[str, Any]:
        """The whole body, as it would be sent to a server."""
        return self.raw.to_dict()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.raw.model}, {len(self.raw.input)} items>"


class ScriptedModel:
    """Answers the n-th request with the n-th response of its script; `requests` keeps what was asked."""

    def __init__(self, *steps: AnyStep, default: AnyStep | None = None, compactions: Sequence[list[Item]] = ()) -> None:
        self.compactions = list(compactions)
        """What a server that shortens threads would return, one after the other."""
        self.requests: list[Asked] = []
        self.turn_states: list[str | None] = []
        """The turn state that came with each request."""
        self._responses = _responses(steps)
        self._default = default
        self.is_closed = False

    def script(self, *steps: AnyStep) -> None:
        """More responses, after those that are left."""
        self._responses += _responses(steps)

    @property
    def is_exhausted(self) -> bool:
        """Whether every step of the script was asked for."""
        return not self._responses

    async def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        """The next step of the script, as a server would send it."""
        asked = Asked(request)
        self.requests.append(asked)
        self.turn_states.append(turn_state.value if turn_state else None)
        number = len(self.requests)
        steps = list(_resolved(self._next(), asked))
        yield Created(f"resp-{number}")
        usage, end_turn = DEFAULT_USAGE, None
        for index, step in enumerate(steps):
            await asyncio.sleep(step.delay_s)
            if step.streams:
                half = says(step.streams).item or {}
                for event in list(_item_events(half, f"{number}_{index}"))[:-1]:
                    yield event
            if step.error is not None:
                raise _copy(step.error)
            if step.item is not None:
                pause_s = 0.0
                for event in _item_events(step.item, f"{number}_{index}"):
                    if isinstance(event, (TextDelta, SummaryDelta)) and step.pace_s:
                        await asyncio.sleep(pause_s)
                        pause_s = step.pace_s
                    yield event
            usage = step.usage or usage
            end_turn = end_turn if step.end_turn is None else step.end_turn
        yield Completed(f"resp-{number}", usage, end_turn)

    async def compact(self, request: Request) -> list[Item]:
        """The next of `compactions`."""
        self.requests.append(Asked(request))
        if not self.compactions:
            raise ModelError("the script has no compaction")
        return self.compactions.pop(0)

    async def warm(self) -> None:
        """There is nothing to open."""

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True

    def _next(self) -> list[AnyStep]:
        if self._responses:
            return self._responses.pop(0)
        if self._default is None:
            raise ModelError(f"the script has no answer to request {len(self.requests)}")
        return [self._default]


def _responses(steps: Sequence[AnyStep]) -> list[list[AnyStep]]:
    responses: list[list[AnyStep]] = []
    preface: list[AnyStep] = []
    for step in steps:
        preface.append(step)
        if not (isinstance(step, Step) and _is_preface(step)):
            responses.append(preface)
            preface = []
    if preface:
        responses.append(preface)
    return responses


def _is_preface(step: Step) -> bool:
    if step.error is not None:
        return False
    return step.item is None or step.item.get("type") == "reasoning"


def _resolved(step: AnyStep, request: Asked) -> Iterator[Step]:
    if isinstance(step, Step):
        yield step
    elif isinstance(step, Sequence) and not isinstance(step, str | bytes):
        for part in step:
            yield from _resolved(part, request)
    elif callable(step):
        yield from _resolved(step(request), request)
    else:
        raise TypeError(f"{step!r} is not a step of a script; says(…), calls(…) and the like make them")


def _copy(error: ModelError | StreamDropped) -> ModelError | StreamDropped:
    """A fresh error each time: one raised twice would carry the first traceback along."""
    fresh = type(error).__new__(type(error))
    fresh.args = error.args
    fresh.__dict__.update(error.__dict__)
    return fresh


_ID_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}


def _item_events(item: Item, number: str) -> Iterator[ModelEvent]:
    kind = item.get("type", "")
    item_id = item.get("id") or f"{_ID_PREFIXES.get(kind, 'item')}_{number}"
    done = item if "id" in item or kind not in _ID_PREFIXES else {"type": kind, "id": item_id, **item}
    if kind == "message":
        yield ItemAdded({**done, "content": []}, item_id)
        for part in item.get("content") or ():
            for piece in _pieces(part.get("text", "")):
                yield TextDelta(item_id, piece)
    elif kind == "reasoning":
        yield ItemAdded({"type": kind, "id": item_id, "summary": []}, item_id)
        for index, part in enumerate(item.get("summary") or ()):
            yield SummaryPartAdded(item_id, index)
            for piece in _pieces(part.get("text", "")):
                yield SummaryDelta(item_id, piece, index)
    elif kind == "function_call":
        yield ItemAdded({**done, "arguments": ""}, item_id)
    elif kind == "custom_tool_call":
        yield ItemAdded({**done, "input": ""}, item_id)
    yield ItemDone(done, item_id)


def _pieces(text: str) -> Iterator[str]:
    """The text word by word, each with the blank before it; a single word in two halves."""
    start = 0
    while start < len(text):
        blank = text.find(" ", start + 1)
        end = len(text) if blank < 0 else blank
        if start == 0 and end == len(text) and end > 1:
            end //= 2
        yield text[start:end]
        start = end
