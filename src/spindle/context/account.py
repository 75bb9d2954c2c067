"""Where the tokens of a thread go: by source, by item, and how much room is left.

What the server reports is the truth about the sum; sizes divided by four say how it is distributed, and what has been
added since the last report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from spindle.context.calls import READ_TOOL, read_of, tool_of
from spindle.context.tokens import (
    IMAGE_TOKENS,
    ServerCount,
    context_tokens,
    estimate_tokens,
    percent_left,
    tokens_of_bytes,
)
from spindle.context.wording import LEDGER_OPEN, is_summary
from spindle.protocol.items import (
    Item,
    call_id_of,
    encode_json,
    is_call,
    is_external,
    is_output,
    item_text,
    name_of_external,
)

Source = Literal[
    "instructions",
    "tools",
    "permissions",
    "environment",
    "agents_md",
    "skills",
    "user",
    "assistant",
    "reasoning",
    "calls",
    "outputs",
    "files",
    "images",
    "summary",
    "other",
]
SOURCES: tuple[Source, ...] = get_args(Source)
"""In the order in which they are shown."""
LIMIT_PERCENT = 90
"""The share of the window at which a thread is compacted, and the most that a configured limit can be."""

_BY_START: tuple[tuple[str, Source], ...] = (
    ("<environment_context>", "environment"),
    ("# agents.md instructions for ", "agents_md"),
    ("<user_instructions>", "agents_md"),
    ("<skill", "skills"),
    ("<user_shell_command>", "outputs"),
    ("<external_message", "outputs"),
    ("<turn_aborted>", "other"),
    ("<user_action>", "other"),
    ("<codex_internal_context", "other"),
    ("<project_notes>", "other"),
    (LEDGER_OPEN, "summary"),
)
_SKILLS_HEADING = "\n## Skills\n"
_NOT_COUNTED = ServerCount()


class ItemCost(msgspec.Struct, frozen=True):
    """One item of a thread, by its place."""

    index: int
    source: Source
    tokens: int
    label: str = ""
    """The tool of a call or an output; the beginning of a message."""


class Breakdown(msgspec.Struct, frozen=True):
    """Tokens by source, every source named. `items` is filled only when asked for."""

    tokens: dict[Source, int]
    items: tuple[ItemCost, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.tokens.values())


class ContextUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How full a thread's window is."""

    window: int | None
    """What the model can take, already without the share that is kept free."""
    limit: int | None
    """Where a compaction becomes due."""
    used: int
    """By the server's last report and what was added since."""
    percent_left: int | None
    breakdown: Breakdown
    """By size alone, so its total is near `used` and rarely equal."""

    @property
    def is_over_limit(self) -> bool:
        return self.limit is not None and self.used >= self.limit


def classify(item: Item, calls: Mapping[str, Item] | None = None) -> Source:
    """The source an item counts to. `calls`, by call id, lets outputs that show a file be told from others."""
    kind = item.get("type")
    if kind == "message":
        return _message_source(item)
    if kind == "reasoning":
        return "reasoning"
    if kind in ("compaction", "compaction_summary"):
        return "summary"
    if is_call(item) or kind == "web_search_call":
        return "calls"
    if is_output(item) or is_external(item):
        if any(_pictures(item)):
            return "images"
        call = (calls or {}).get(call_id_of(item))
        return "files" if call is not None and _shows_a_file(call) else "outputs"
    return "other"


def breakdown(
    instructions: str | bytes, tools: bytes | Sequence[Any], items: Sequence[Item], *, each: bool = False
) -> Breakdown:
    """What a request with these parts costs, by source. `each` also lists every item.

    A message that holds more than one thing is divided: pictures count as pictures, a list of skills as skills.
    """
    tokens: dict[Source, int] = dict.fromkeys(SOURCES, 0)
    tokens["instructions"] = tokens_of_bytes(
        len(instructions.encode() if isinstance(instructions, str) else instructions)
    )
    tokens["tools"] = tokens_of_bytes(len(tools if isinstance(tools, bytes) else encode_json(list(tools))))
    calls = {call_id_of(item): item for item in items if is_call(item)}
    costs = []
    for index, item in enumerate(items):
        source, cost = classify(item, calls), estimate_tokens(item)
        if each:
            costs.append(ItemCost(index, source, cost, _label(item, calls)))
        for part, share in _divided(item, source, cost):
            tokens[part] += share
    return Breakdown(tokens, tuple(costs))


def compaction_limit(window: int | None, configured: int | None = None, catalogue: int | None = None) -> int | None:
    """Where a thread is compacted: as configured, or as the model's entry says, at most 90 % of the whole window."""
    wanted = configured or catalogue
    most = window * LIMIT_PERCENT // 100 if window else None
    if most is None or wanted is None:
        return wanted or most
    return min(wanted, most)


def context_usage(
    instructions: str | bytes,
    tools: bytes | Sequence[Any],
    items: Sequence[Item],
    *,
    window: int | None,
    limit: int | None = None,
    counted: ServerCount = _NOT_COUNTED,
    each: bool = False,
) -> ContextUsage:
    """The state of a thread now. `window` is the effective one; `counted` is what the last response said."""
    parts = breakdown(instructions, tools, items, each=each)
    used = context_tokens(items, counted)
    if counted.total_tokens == 0:
        used += parts.tokens["instructions"] + parts.tokens["tools"]
    left = None if window is None else percent_left(window, used)
    return ContextUsage(window=window, limit=limit, used=used, percent_left=left, breakdown=parts)


# ---- sources of one item -----------------------------------------------------------------------------


def _message_source(item: Item) -> Source:
    role = item.get("role")
    if role == "assistant":
        return "assistant"
    start = item_text(item).lstrip()[:40].lower()
    if role == "developer":
        return "permissions" if start.startswith("<permissions instructions>") else "instructions"
    if role != "user":
        return "other"
    if is_summary(item):
        return "summary"
    for prefix, source in _BY_START:
        if start.startswith(prefix):
            return source
    return "user"


def _divided(item: Item, source: Source, cost: int) -> list[tuple[Source, int]]:
    if source == "agents_md":
        text = item_text(item)
        at = text.find(_SKILLS_HEADING)
        if at >= 0:
            skills = min(cost, tokens_of_bytes(len(text[at:].encode())))
            return [("skills", skills), ("agents_md", cost - skills)]
    if source in ("user", "images"):
        pictures = IMAGE_TOKENS * sum(_pictures(item))
        if pictures:
            return [("images", pictures), ("user" if source == "user" else "outputs", cost - pictures)]
    return [(source, cost)]


def _pictures(item: Item) -> list[bool]:
    parts = item.get("output" if "output" in item else "content")
    found = parts if isinstance(parts, list) else []
    return [isinstance(part, dict) and part.get("type") == "input_image" for part in found]


def _shows_a_file(call: Item) -> bool:
    return tool_of(call) == READ_TOOL or read_of(call) is not None


def _label(item: Item, calls: Mapping[str, Item]) -> str:
    if is_call(item):
        return tool_of(item)
    if is_output(item):
        call = calls.get(call_id_of(item))
        return "" if call is None else tool_of(call)
    if is_external(item):
        return name_of_external(item)
    return " ".join(item_text(item)[:200].split())[:60]
