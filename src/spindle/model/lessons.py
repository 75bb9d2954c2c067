"""What a refusal teaches about a server: which flag of `capabilities` it means. Loaded only after a refusal.

A flag is meant when the words, or the `param`, of a 400, 404 or 422 name what the request holds because of that flag.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from spindle.model.capabilities import Capabilities
from spindle.model.provider import Provider
from spindle.model.server_words import ServerWords
from spindle.protocol.request import Request, VisibleItem

STATUSES = frozenset((400, 404, 422))
CRASHES = frozenset((500, 501))
"""llama.cpp's server refuses tools and pictures with these, so such words count there too."""
TOLD_BY_CRASHES = frozenset(("tools", "images"))
MOST_IN_ONE_CALL = 4
LOCAL = frozenset(("ollama", "lmstudio", "local"))
"""Providers whose servers may be too old for the Responses API."""

LEFT_OUT = {
    "custom_tools": "tools for free text, which are functions now",
    "hosted_tools": "tools that the server runs itself",
    "tools": "function calling; tools are described in the instructions instead",
    "parallel": "parallel_tool_calls",
    "stream_options": "stream_options",
    "json_schema": "an output schema; the answer is asked for in words, and checked here",
    "images": "pictures; a text stands in their place",
    "developer_role": "the role developer",
    "tool_choice_none": "a tool_choice",
    "responses": "the Responses API; Chat Completions is used instead",
    "effort": "a word on how hard to think",
    "thinking": "a demand for thinking",
}


class Refused(msgspec.Struct, frozen=True):
    """A request, on which terms it was made, and what the server said."""

    status: int
    words: ServerWords
    provider: Provider
    wire: str
    request: Request
    capabilities: Capabilities

    @property
    def text(self) -> str:
        """The words and the parameter that they are about, in lower case."""
        return f"{self.words.text} {self.words.fields.get('param') or ''}".lower()


def lessons_of(refused: Refused) -> dict[str, bool | int]:
    """The flags that must change, and to what; none when the refusal is about something else."""
    if refused.status in CRASHES:
        taught = _taught(refused)
        return taught if TOLD_BY_CRASHES.issuperset(taught) else {}
    if refused.status not in STATUSES:
        return {}
    if (most := _output_limit(refused)) is not None:
        return {"output_tokens": most}
    return _taught(refused)


def _taught(refused: Refused) -> dict[str, bool | int]:
    for flags, is_meant in _TABLE:
        meant: dict[str, bool | int] = {flag: value for flag in flags if (value := _changed(refused, flag)) is not None}
        if meant and is_meant(refused):
            return meant
    return {}


def notice(provider: Provider, lessons: dict[str, bool | int]) -> str:
    """One sentence for the person about all that was learned in one call."""
    name = provider.name or provider.id
    lowered = [LEFT_OUT[flag] for flag, value in lessons.items() if flag in LEFT_OUT and not value]
    said = [f"{name} does not take {', nor '.join(lowered)}"] if lowered else []
    if "output_tokens" in lessons:
        said.append(f"{name} lets an answer of this model have {lessons['output_tokens']} tokens at most")
    if "max_completion_tokens" in lessons:
        said.append(f"{name} calls the limit of an answer max_completion_tokens")
    if "replay_reasoning" in lessons:
        said.append(f"{name} wants its reasoning {'back' if lessons['replay_reasoning'] else 'no longer back'}")
    return f"{'; '.join(said)}. This is remembered; `spindle models --forget` makes Spindle try again."


# ---- opaque parts -------------------------------------------------------------------------------------

_OPAQUE_CODES = frozenset(("invalid_encrypted_content",))
_OPAQUE_WORDS = re.compile(
    r"invalid\W{0,3}(?:signature|data)\W{0,3} in\W{0,3} ?(?:redacted_)?thinking|could not be verified"
    r"|thinking\W{0,3} ?blocks?\b.{0,80}\bcannot be modified"
    r"|invalid.{0,20}encrypted.content|encrypted.content.{0,40}(?:invalid|could not be|cannot be|not valid)",
    re.IGNORECASE,
)


def is_about_opaque(words: ServerWords) -> bool:
    """The server cannot read parts that should be its own."""
    return bool(words.codes & _OPAQUE_CODES) or _OPAQUE_WORDS.search(words.text) is not None


_WANTS_THINKING = re.compile(
    r"expected .{0,60}thinking\b.{0,60}\bfound\b|must start with a thinking block", re.IGNORECASE
)


def wants_thinking(words: ServerWords) -> bool:
    """The server asks for thinking with the calls that are being answered, and there is none that it could read."""
    return _WANTS_THINKING.search(words.text) is not None


def has_opaque(request: Request) -> bool:
    return any(_is_opaque(visible) for visible in request.items)


def without_opaque(request: Request) -> Request:
    """The request without what only its own server could read."""
    items = [
        msgspec.structs.replace(visible, opaque=None) if visible.opaque is not None else visible
        for visible in request.items
        if not _holds_opaque(visible)
    ]
    return msgspec.structs.replace(request, items=items)


def _is_opaque(visible: VisibleItem) -> bool:
    return visible.opaque is not None or _holds_opaque(visible)


def _holds_opaque(visible: VisibleItem) -> bool:
    """The item itself is of no use to others: encrypted reasoning, or a compacted thread."""
    return visible.item.get("type") in ("reasoning", "compaction") and bool(visible.item.get("encrypted_content"))


# ---- flags --------------------------------------------------------------------------------------------


def _changed(refused: Refused, flag: str) -> bool | None:
    """What the flag becomes; None when it is as low as it can be already."""
    value = getattr(refused.capabilities, flag)
    if flag == "replay_reasoning":
        return not value
    if flag == "max_completion_tokens":
        return None if value else True
    return False if value else None


# ---- which words mean which flag ----------------------------------------------------------------------


def _names(*words: str) -> Callable[[Refused], bool]:
    return lambda refused: any(word in refused.text for word in words)


_TYPE_OF_TOOL = re.compile(
    r"type.{0,3} of tools?\b|\btools?(?: must have)?[ _]type|\btools?(?:\[\d+\]|\.\d+)?\.type"
    r"|tools?\b.{0,60}(?:input should be 'function'|expected `?'?function|only.{0,20}functions?\b)"
    r"|unknown variant `(?:custom|web_search)",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(
    r"(?:not support|n't support|unsupported).{0,30}\b(?:tools?\b|function[ _-]?call)"
    r"|\b(?:tools?|tool[ _]use|tool[ _]call(?:s|ing)?|function[ _-]?call(?:s|ing)?)\b.{0,20}"
    r"(?:not|n't|un)[ -]?(?:be )?(?:support|available|enabled|allowed)"
    r"|(?:unrecogni[sz]ed|unknown|unexpected|extra)\b[^.]{0,50}(?<!\w)['\"`]?tools['\"`]?(?:$|[\s,;])"
    r"|^(?:body\.)?['\"`]?tools['\"`]?: (?:extra|unrecogni[sz]ed|unknown|unexpected)"
    r"|enable-auto-tool-choice|tool-call-parser|support tool use|--jinja",
    re.IGNORECASE,
)
_NO_IMAGES = re.compile(
    r"(?:not support|n't support|unsupported|cannot|can not|only support|no endpoints).{0,60}\b"
    r"(?:image|vision|multimodal)"
    r"|\b(?:image|input_image|vision|multimodal)\w*\b.{0,60}(?:not support|unsupported|only supported|not allowed"
    r"|not enabled|not available)"
    r"|unknown variant `(?:image_url|input_image|image)|content type.{0,20}image|mmproj|at most 0 image"
    r"|(?:only|must be) text|text[- ]only|content\W.{0,40}(?:should|must) be a (?:valid )?string",
    re.IGNORECASE,
)
_EFFORT = re.compile(r"\breasoning_effort\b|\boutput_config\b|\beffort\b.{0,40}\b(?:support|param)")
_THINKING = re.compile(
    r"\bthinking\.(?:type|adaptive|enabled|display)\b|\bthinking: (?:extra|unknown|unexpected)"
    r"|\bthinking\b.{0,40}(?:not|n't|un)[ -]?support"
)
_OUTPUT_LIMIT = re.compile(r"max_tokens\b.{0,40}?\d ?(?:>|exceeds|<=) ?(\d+)|max_tokens\b.{0,80}\bat most (\d+)")


def _is_tool_type(refused: Refused) -> bool:
    return _TYPE_OF_TOOL.search(refused.text) is not None


def _is_named_tool(*words: str) -> Callable[[Refused], bool]:
    return lambda refused: "tool" in refused.text and any(re.search(rf"\b{word}\b", refused.text) for word in words)


def _is_options(refused: Refused) -> bool:
    return refused.wire == "chat" and _names("stream_options", "include_usage")(refused)


def _is_schema(refused: Refused) -> bool:
    asked = (refused.request.text or {}).get("format") is not None
    words = ("response_format", "json_schema", "output_config", "output_format", "text.format", "structured output")
    return asked and _names(*words)(refused)


def _is_images(refused: Refused) -> bool:
    has_picture = any(b'"input_image"' in visible.raw for visible in refused.request.items)
    return has_picture and _NO_IMAGES.search(refused.text) is not None


def _is_choice(refused: Refused) -> bool:
    is_said = refused.request.tool_choice == "none" or refused.wire == "chat"
    return is_said and "tool_choice" in refused.text and not _is_tools(refused)


def _is_tools(refused: Refused) -> bool:
    return _NO_TOOLS.search(refused.text) is not None


def _is_limit(refused: Refused) -> bool:
    is_said = refused.wire == "chat" and refused.request.facts.max_output_tokens is not None
    return is_said and "max_tokens" in refused.text and "max_completion_tokens" in refused.text


def _is_parallel(refused: Refused) -> bool:
    said = refused.request.parallel_tool_calls is not None
    return said and _names("parallel_tool_calls", "disable_parallel_tool_use", "parallel tool call")(refused)


def _is_effort(refused: Refused) -> bool:
    is_said = refused.wire != "responses" and refused.request.facts.effort is not None
    return is_said and _EFFORT.search(refused.text) is not None


def _is_thinking(refused: Refused) -> bool:
    is_asked = refused.wire == "messages" and refused.request.facts.thinking is not None
    return is_asked and _THINKING.search(refused.text) is not None


def _output_limit(refused: Refused) -> int | None:
    """How much an answer may have, where the server refuses a demand for more. The user's own number is not touched."""
    if refused.wire != "messages" or refused.request.facts.max_output_tokens:
        return None
    found = _OUTPUT_LIMIT.search(refused.text)
    most = int(found[1] or found[2]) if found else 0
    return most if 1 <= most < (refused.capabilities.output_tokens or 10**9) else None


def _is_reasoning(refused: Refused) -> bool:
    return refused.wire == "chat" and "reasoning_content" in refused.text


def _is_developer(refused: Refused) -> bool:
    return "developer" in refused.text and "role" in refused.text


def _is_path(refused: Refused) -> bool:
    from spindle.model.refusals import is_about_model  # only after a refusal

    is_there = refused.status != 404 or is_about_model(404, refused.words, refused.request.model)
    return refused.wire == "responses" and refused.provider.id in LOCAL and not is_there


_TABLE: tuple[tuple[tuple[str, ...], Callable[[Refused], bool]], ...] = (
    (("stream_options",), _is_options),
    (("parallel",), _is_parallel),
    (("json_schema",), _is_schema),
    (("replay_reasoning",), _is_reasoning),
    (("max_completion_tokens",), _is_limit),
    (("effort",), _is_effort),
    (("thinking",), _is_thinking),
    (("tool_choice_none",), _is_choice),
    (("hosted_tools",), _is_named_tool("web_search", "hosted", "built-in")),
    (("custom_tools",), _is_named_tool("custom", "grammar")),
    (("custom_tools", "hosted_tools"), _is_tool_type),
    (("images",), _is_images),
    (("developer_role",), _is_developer),
    (("tools",), _is_tools),
    (("responses",), _is_path),
)
"""In this order: the more telling words first."""
