"""What a model server can do, as far as requests depend on it, and where that is known from.

The user's word counts first, then what a server's refusals have taught, then the catalogue, then what is usual on the
wire.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spindle.model.provider import Provider


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The known flags of one endpoint and model. The defaults are those of a Responses server that can do all."""

    custom_tools: bool = True
    """Tools whose input is free text; else they are functions with one string, `input`."""
    hosted_tools: bool = True
    """Tools that the server runs itself, as web_search; else they are left out."""
    tools: bool = True
    """Function calling; else tools are described in the system text."""
    parallel: bool = True
    """`parallel_tool_calls`, or what stands for it, may be said."""
    stream_options: bool = True
    """`stream_options` may be asked for, and with it the count of tokens."""
    json_schema: bool = True
    """An output schema is kept by the server; else it is asked for in words."""
    images: bool = True
    """Pictures are seen; else a text stands in their place."""
    developer_role: bool = True
    """Messages may have the role `developer`."""
    replay_reasoning: bool = False
    """Readable reasoning is wanted back with the message it led to."""
    tool_choice_none: bool = True
    """Calls can be forbidden while tools are listed: `tool_choice` is known, and its `none`."""
    responses: bool = True
    """There is a Responses endpoint; else Chat Completions is spoken."""
    effort: bool = True
    """How hard to think may be said, on Chat and Messages."""
    thinking: bool = True
    """Thinking may be asked for, on Messages."""
    max_completion_tokens: bool = False
    """On Chat, the limit of an answer is `max_completion_tokens`; else `max_tokens`, which most servers know."""
    output_tokens: int | None = None
    """No flag, but learned like one: how much a Messages server lets an answer have."""


CAPABILITY_FILE = "capabilities.json"
"""In the folder `spindle` of the home."""
_MINIMAL = Capabilities(custom_tools=False, hosted_tools=False, developer_role=False)
_DEFAULTS = {"responses": Capabilities(), "chat": _MINIMAL, "messages": _MINIMAL}


def default_capabilities(wire: str) -> Capabilities:
    """What a server of this wire is taken to be able to do before anything is known of it."""
    return _DEFAULTS[wire]


class CapabilityMemory:
    """What is known of the servers of this home; what was learned is kept in a file."""

    def __init__(self, path: str | None = None, now: float = 0.0) -> None:
        """`path` is the file, where there is a home to keep one in; `now` decides which lessons are too old."""
        self._path = path
        self._now = now
        self._learned: dict[tuple[str, str], dict[str, bool | int]] | None = None
        """By endpoint and model, the flags that were learned."""
        self._known: dict[tuple[str, str, str], Capabilities] = {}

    def of(self, provider: Provider, wire: str, model: str, catalogued: Mapping[str, bool] = {}) -> Capabilities:
        """What the model of a server can do; `catalogued` is what the catalogue says of it."""
        key = (endpoint_name(provider, wire), provider.id, model)
        known = self._known.get(key)
        if known is None:
            learned = self._lessons().get((key[0], model), {})
            told = {"replay_reasoning": True} if provider.replay_reasoning and wire == "chat" else {}
            flags = {**catalogued, **learned, **told, **provider.capabilities}
            usual = default_capabilities(wire)
            known = self._known[key] = msgspec.structs.replace(usual, **flags) if flags else usual
        return known

    def learn(
        self, provider: Provider, wire: str, model: str, flags: Mapping[str, bool | int], reason: str, now: float
    ) -> None:
        """Remember, here and for later processes, what a refusal has taught. Never fails."""
        endpoint = endpoint_name(provider, wire)
        self._lessons().setdefault((endpoint, model), {}).update(flags)
        self._known.clear()
        if self._path is not None:
            from spindle.model.capability_file import Lesson, remember  # only after a refusal

            remember(self._path, endpoint, model, {flag: Lesson(to, int(now), reason) for flag, to in flags.items()})

    def _lessons(self) -> dict[tuple[str, str], dict[str, bool | int]]:
        if self._learned is None:
            self._learned = {}
            try:
                with open(self._path or "", "rb") as file:
                    data = file.read()
            except OSError:
                return self._learned  # nothing was learned yet
            from spindle.model.capability_file import read_lessons  # only where something was learned

            self._learned = read_lessons(data, self._now)
        return self._learned


def endpoint_name(provider: Provider, wire: str) -> str:
    """How the file calls a server: the dialect, and the address without a password in it."""
    return f"{wire} {provider.public_base_url}"
