"""Rebuilding a compacted history from a record that holds only the summary.

Old rollout files have the summary, but not the list that replaced the history. The rule for that list: the context
messages the model last saw, the user's messages (newest first within a budget), the summary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from spindle.protocol.items import Item, is_user_input, item_text, said_text, user_message

KEPT_MESSAGE_TOKENS = 20_000
BYTES_PER_TOKEN = 4
NO_SUMMARY = "(no summary available)"
_PASSING = ("<turn_aborted>", "<user_shell_command>", "<skill", "<user_action>")
"""Context that belongs to one turn and is not shown again after a compaction."""


def rebuild_after_summary(items: Iterable[Item], summary: str, is_summary: Callable[[Item], bool]) -> list[Item]:
    """What the model saw after a compaction that recorded no replacement."""
    items = list(items)
    said = [text for item in items if (text := _said_by_the_person(item, is_summary)) is not None]
    kept = [user_message(text) for text in _newest_within_budget(said)]
    return [*_latest_context(items), *kept, user_message(summary or NO_SUMMARY)]


def _said_by_the_person(item: Item, is_summary: Callable[[Item], bool]) -> str | None:
    if item.get("type") != "message" or item.get("role") != "user" or is_summary(item):
        return None
    if not is_user_input(item):
        return item_text(item) if _start(item).startswith("<turn_aborted>") else None
    return said_text(item) or None


def _newest_within_budget(texts: list[str]) -> list[str]:
    kept = []
    left = KEPT_MESSAGE_TOKENS
    for text in reversed(texts):
        if left <= 0:
            break
        size = -(-len(text.encode()) // BYTES_PER_TOKEN)
        kept.append(text if size <= left else _cut_in_the_middle(text, left))
        left -= size
    return kept[::-1]


def _cut_in_the_middle(text: str, tokens: int) -> str:
    data = text.encode()
    budget = tokens * BYTES_PER_TOKEN
    head, tail = budget // 2, budget - budget // 2
    missing = -(-(len(data) - budget) // BYTES_PER_TOKEN)
    start = data[:head].decode(errors="ignore")
    end = data[len(data) - tail :].decode(errors="ignore")
    return f"{start}…{missing} tokens truncated…{end}"


def _latest_context(items: list[Item]) -> list[Item]:
    """The newest context message of each kind, in the order in which the kinds first appeared."""
    latest: dict[tuple[str, str], Item] = {}
    for item in items:
        if item.get("type") != "message":
            continue
        role = item.get("role")
        if role == "developer" or (
            role == "user" and not is_user_input(item) and not _start(item).startswith(_PASSING)
        ):
            latest[(str(role), _kind(_start(item)))] = item
    return list(latest.values())


def _start(item: Item) -> str:
    return item_text(item).lstrip()[:60].lower()


def _kind(start: str) -> str:
    """The tag or heading a context message begins with."""
    if start.startswith("<"):
        return start.split(">", 1)[0]
    return start.split(" for ", 1)[0] if start.startswith("# ") else ""
