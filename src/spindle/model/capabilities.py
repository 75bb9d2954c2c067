"""What a model server can do, as far as requests depend on it."""

from __future__ import annotations

import msgspec


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
    """Calls can be forbidden while tools are listed."""
    responses: bool = True
    """There is a Responses endpoint; else Chat Completions is spoken."""


FLAGS = Capabilities.__struct_fields__

_MINIMAL = Capabilities(custom_tools=False, hosted_tools=False, developer_role=False)
_DEFAULTS = {"responses": Capabilities(), "chat": _MINIMAL, "messages": _MINIMAL}


def default_capabilities(wire: str) -> Capabilities:
    """What a server of this wire is taken to be able to do before anything is known of it."""
    return _DEFAULTS[wire]
