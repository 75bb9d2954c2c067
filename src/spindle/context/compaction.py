"""Replacing a long thread by a short one: what stays verbatim, what a summary stands for, in which order.

The pure part of compaction. When it is due, which model or endpoint is asked and what is recorded is decided by the
caller; `compress_by_model` does the whole of it for callers that have nothing but a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from spindle.context.calls import find_pairs
from spindle.context.tokens import estimate_tokens, tokens_of_bytes
from spindle.context.truncate import truncate_output, truncate_text
from spindle.context.wording import (
    LEDGER_OPEN,
    NO_SUMMARY,
    RULES_HEADING,
    STANDING_RULES,
    SUMMARY_PREAMBLE,
    SUMMARY_PROMPT,
    is_summary,
)
from spindle.errors import ModelError
from spindle.protocol.items import (
    OUTPUT_TYPES,
    SENT_TYPES,
    Item,
    encode_json,
    is_output,
    is_user_input,
    item_text,
    said_text,
    user_message,
)
from spindle.protocol.origin import block, defused

if TYPE_CHECKING:
    from spindle.context.ledger import WorkLedger

KEPT_MESSAGE_TOKENS = 20_000
LEDGER_TOKENS = 6_000
KEEP_HEADING = "Keep on compaction"
_NEXT_DOCUMENT = "--- project-doc ---"
OVERFLOW = "context_window_exceeded"
"""The `info` of a ModelError when the items did not fit."""
_ABORTED = "<turn_aborted>"
_OF_ONE_TURN = (_ABORTED, "<user_shell_command>", "<skill", "<user_action>", "<codex_internal_context")
"""Context that tells what happened, not how things are; it is not rebuilt after a compaction."""
_LARGEST_OUTPUT_SHARE = 4

IsSummary = Callable[[Item], bool]


class SummaryModel(Protocol):
    """All that `compress_by_model` needs of a model."""

    async def answer(self, items: list[Item]) -> str:
        """The text the model answers with. Raises ModelError, with `info` OVERFLOW when the items do not fit."""
        ...


class CompactionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction did. `message` is the text the replacement's summary message holds."""

    tokens_before: int
    tokens_after: int
    message: str
    added_rules: tuple[str, ...] = ()
    """Retention rules the model had left out, and which were appended."""
    left_out: int = 0
    """Items the model did not see, because all would not have fitted."""
    attempts: int = 1

    def __str__(self) -> str:
        return f"compacted, {self.tokens_before:,} → {self.tokens_after:,} tokens"


async def compress_by_model(
    items: Sequence[Item],
    client: SummaryModel,
    *,
    prompt: str | None = None,
    keep_rules: Sequence[str] = (),
    initial_context: Sequence[Item] | None = None,
    ledger: WorkLedger | str = "",
    ledger_tokens: int = LEDGER_TOKENS,
    kept_tokens: int = KEPT_MESSAGE_TOKENS,
    tail_tokens: int = 0,
    max_input_tokens: int | None = None,
    is_summary: IsSummary = is_summary,
) -> tuple[list[Item], CompactionReport]:
    """A short thread that stands for `items`, with a summary the model writes, and what that saved.

    `max_input_tokens` is what the model can take; more is cut before it is asked. If it still overflows, ever more of
    the oldest items are left out, so that few attempts end it. Raises the model's own error when there is nothing left
    to leave out or something else went wrong; `items` is never changed.
    """
    request = summary_request(prompt, keep_rules)
    attempts = 1
    while True:
        shown = shown_for_summary(items, request, max_input_tokens, attempts)
        try:
            summary = await client.answer([*shown, request])
            break
        except ModelError as error:
            if error.info != OVERFLOW or not shown:
                raise
        attempts += 1
    said, added = with_standing_rules(summary, keep_rules)
    new = replacement(
        standing_context(items) if initial_context is None else initial_context,
        items,
        said,
        ledger=ledger,
        ledger_tokens=ledger_tokens,
        kept_tokens=kept_tokens,
        tail_tokens=tail_tokens,
        is_summary=is_summary,
    )
    return new, CompactionReport(
        tokens_before=sum(map(estimate_tokens, items)),
        tokens_after=sum(map(estimate_tokens, new)),
        message=summary_text(said),
        added_rules=added,
        left_out=len(items) - len(shown),
        attempts=attempts,
    )


# ---- asking for a summary ----------------------------------------------------------------------------


def summary_request(prompt: str | None = None, rules: Sequence[str] = ()) -> Item:
    """The message that asks for the summary; `prompt` replaces our text, rules are added to either."""
    text = prompt or SUMMARY_PROMPT
    if rules:
        text += f"\n\n{RULES_HEADING}\n" + "\n".join(f"- {rule}" for rule in rules)
    return user_message(text)


def retention_rules(
    configured: Iterable[str] = (), documents: str | None = None, instructions: str | None = None
) -> tuple[str, ...]:
    """What every summary must hold word for word, each once.

    From the user's configuration, from the project documents (`keep_section`), and from the words of this compaction.
    """
    given = (*configured, *keep_section(documents or ""), instructions or "")
    return tuple(dict.fromkeys(rule for text in given if (rule := text.strip())))


def keep_section(document: str) -> list[str]:
    """The lines under a heading `## Keep on compaction`, without list marks, up to the next heading as high.

    The line between the user's document and the project's ends it too.
    """
    kept: list[str] = []
    is_inside = is_code = False
    for line in document.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
            continue
        heading = None if is_code else re.match(r"(#{1,6})\s+(.*?)\s*#*\s*$", line)
        if line == _NEXT_DOCUMENT:
            is_inside = False
        elif heading and len(heading[1]) <= 2:
            is_inside = heading[1] == "##" and heading[2].casefold() == KEEP_HEADING.casefold()
        elif is_inside and not heading and line.strip():
            kept.append(re.sub(r"^\s*(?:[-*+]|\d+[.)])\s+", "", line).strip())
    return kept


def with_standing_rules(summary: str, rules: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The summary with every rule in it, word for word, and the rules that had to be appended."""
    summary = summary.strip() or NO_SUMMARY
    missing = tuple(rule for rule in rules if rule not in summary)
    if not missing:
        return summary, ()
    listed = "\n".join(f"- {rule}" for rule in missing)
    return f"{summary}\n\n## {STANDING_RULES}\n{listed}", missing


def shown_for_summary(
    items: Sequence[Item], request: Item, max_input_tokens: int | None = None, attempt: int = 1
) -> list[Item]:
    """What the model is shown before `request`, which asks for the summary: less with each attempt."""
    shown = list(items)
    if max_input_tokens is not None:
        shown = fit(shown, max_input_tokens - estimate_tokens(request))
    for former in range(1, attempt):
        shown = drop_oldest(shown, 1 << (former - 1))
    return shown


def fit(items: Sequence[Item], max_tokens: int) -> list[Item]:
    """The items within `max_tokens`: first the largest outputs are cut in the middle, then the oldest items go."""
    costs = [estimate_tokens(item) for item in items]
    if sum(costs) <= max_tokens:
        return list(items)
    largest = max(1, max_tokens // _LARGEST_OUTPUT_SHARE)
    cut = [
        {**item, "output": truncate_output(item["output"], "tokens", largest)}
        if _has_output(item) and cost > largest and isinstance(item.get("output"), str | list)
        else item
        for item, cost in zip(items, costs, strict=True)
    ]
    left = sum(costs := [estimate_tokens(item) for item in cut])
    dropped: set[int] = set()
    partners = _partners(cut)
    for index in range(len(cut)):
        if left <= max_tokens:
            break
        for gone in (index, partners.get(index, index)):
            if gone not in dropped:
                dropped.add(gone)
                left -= costs[gone]
    return _without(cut, dropped)


def drop_oldest(items: Sequence[Item], count: int = 1) -> list[Item]:
    """The items without the oldest `count`; a call goes together with its output."""
    partners = _partners(items)
    dropped: set[int] = set()
    for index in range(len(items)):
        if len(dropped) >= count:
            break
        dropped.update((index, partners.get(index, index)))
    return _without(items, dropped)


# ---- putting the new list together -------------------------------------------------------------------


def summary_text(summary: str) -> str:
    return f"{SUMMARY_PREAMBLE}\n{defused(summary.strip()) or NO_SUMMARY}"


def ledger_message(ledger: str) -> Item:
    """The work ledger as context for the model."""
    return user_message(block("work_ledger", ledger.strip()))


def replacement(
    initial_context: Sequence[Item],
    items: Sequence[Item],
    summary: str,
    *,
    ledger: WorkLedger | str = "",
    ledger_tokens: int = LEDGER_TOKENS,
    tail_tokens: int = 0,
    kept_tokens: int = KEPT_MESSAGE_TOKENS,
    is_summary: IsSummary = is_summary,
) -> list[Item]:
    """What stands for `items` from now on.

    The context rebuilt, the ledger, the person's messages, the summary; with `tail_tokens` also the newest items as
    they are, which then come last. A ledger that is not yet a text leaves out the messages that stand here anyway.
    """
    start = tail_start(items, tail_tokens, is_summary=is_summary)
    tail = [item for item in items[start:] if not _is_standing_context(item)]
    kept = kept_messages(items[:start], budget_tokens=kept_tokens, is_summary=is_summary)
    return [
        *initial_context,
        *_ledger_messages(ledger, ledger_tokens, [*kept, *tail]),
        *kept,
        user_message(summary_text(summary)),
        *tail,
    ]


def remote_replacement(
    initial_context: Sequence[Item],
    returned: Sequence[Item],
    items: Sequence[Item] = (),
    *,
    ledger: WorkLedger | str = "",
    ledger_tokens: int = LEDGER_TOKENS,
) -> list[Item]:
    """The same from what a compaction endpoint returned: its items as they are, without context that is rebuilt.

    A server speaks for the model. Words in the name of others count where they stand in `items` already: outputs that
    do not are left out, and so are messages in the person's role that hold a tag of ours.
    """
    known = {encode_json(_content(item)) for item in items}
    kept: list[Item] = []
    for item in returned:
        if item.get("type") not in SENT_TYPES:
            continue  # whatever it passes for
        if _has_output(item) or item.get("type") == "message":
            role = "tool" if _has_output(item) else item.get("role")
            if role not in ("assistant", "user", "tool") or _is_standing_context(item):
                continue
            is_forged = role == "tool" or (role == "user" and defused(said := item_text(item)) != said)
            if is_forged and encode_json(_content(item)) not in known:
                continue
        kept.append(item)
    return [*initial_context, *_ledger_messages(ledger, ledger_tokens, kept), *kept]


def kept_messages(
    items: Sequence[Item], *, budget_tokens: int = KEPT_MESSAGE_TOKENS, is_summary: IsSummary = is_summary
) -> list[Item]:
    """The person's messages, oldest first, as many of the newest as the budget holds.

    Texts only. The one that crosses the budget is cut in the middle; older ones are gone. That a turn was stopped is
    kept like a message; earlier summaries are not.
    """
    kept: list[Item] = []
    left = budget_tokens
    for item in reversed(items):
        if left <= 0:
            break
        text = _said(item, is_summary)
        if text is None:
            continue
        size = tokens_of_bytes(len(text.encode()))
        kept.append(user_message(text if size <= left else truncate_text(text, "tokens", left)[0]))
        left -= size
    return kept[::-1]


def standing_context(items: Sequence[Item]) -> list[Item]:
    """The newest context message of each kind, in the order in which the kinds first appeared."""
    newest: dict[str, Item] = {}
    for item in items:
        if _is_standing_context(item) and not _start(item).startswith(LEDGER_OPEN):
            newest[_kind(item)] = item
    return list(newest.values())


def tail_start(items: Sequence[Item], budget_tokens: int, *, is_summary: IsSummary = is_summary) -> int:
    """Where the newest items begin that fit the budget. Responses stay whole, and calls with their outputs."""
    start = len(items)
    left = budget_tokens
    for index in reversed(range(len(items))):
        item = items[index]
        left -= estimate_tokens(item)
        if left < 0 or item.get("type") in ("compaction", "compaction_summary") or is_summary(item):
            break
        if not is_output(item) and (index == 0 or _ends_a_group(items[index - 1])):
            start = index
    return start


# ---- small things ------------------------------------------------------------------------------------


def _content(item: Item) -> list[Any]:
    """What makes two items say the same, whatever ids a server gives them."""
    return [item.get(name) for name in ("type", "role", "call_id", "name", "namespace", "content", "output")]


def _ledger_messages(ledger: WorkLedger | str, tokens: int, others: Sequence[Item]) -> list[Item]:
    if not isinstance(ledger, str):
        ledger = ledger.render(tokens, shown={said_text(item) for item in others if is_user_input(item)})
    return [ledger_message(ledger)] if ledger.strip() else []


def _said(item: Item, is_summary: IsSummary) -> str | None:
    """The text of a message that counts as the person's."""
    if item.get("type") != "message" or item.get("role") != "user" or is_summary(item):
        return None
    if not is_user_input(item) and not _start(item).startswith(_ABORTED):
        return None
    return said_text(item) or None


def _is_standing_context(item: Item) -> bool:
    """A message that tells how things are; the next list has it anew."""
    if item.get("type") != "message":
        return False
    if item.get("role") == "developer":
        return True
    return item.get("role") == "user" and not is_user_input(item) and not _start(item).startswith(_OF_ONE_TURN)


def _start(item: Item) -> str:
    return item_text(item).lstrip()[:60].lower()


def _kind(item: Item) -> str:
    """The tag or heading a context message begins with; free instructions of a developer are a kind of their own."""
    start = _start(item)
    if start.startswith("<"):
        return start.split(">", 1)[0]
    return "agents" if start.startswith("# agents.md") else "developer"


def _ends_a_group(item: Item) -> bool:
    """A group of items that belong together ends with this one: after it comes another response, or a message that
    answers none."""
    return _has_output(item) or (item.get("type") == "message" and item.get("role") != "assistant")


def _has_output(item: Item) -> bool:
    """What a tool gave, asked or not."""
    return item.get("type") in OUTPUT_TYPES


def _partners(items: Sequence[Item]) -> dict[int, int]:
    partners = {}
    for pair in find_pairs(items):
        partners[pair.call], partners[pair.output] = pair.output, pair.call
    return partners


def _without(items: Sequence[Item], dropped: set[int]) -> list[Item]:
    """What is left, without the server's ids where the reasoning before an item went: servers want both or neither."""
    kept: list[Item] = []
    is_orphan = False
    for index, item in enumerate(items):
        if _ends_a_group(item):
            is_orphan = False
        if index in dropped:
            is_orphan = is_orphan or item.get("type") == "reasoning"
            continue
        kept.append({key: value for key, value in item.items() if key != "id"} if is_orphan and "id" in item else item)
    return kept
