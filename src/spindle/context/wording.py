"""The texts of compaction: what the model is asked for, how its answer is introduced, and how either is told apart."""

from __future__ import annotations

from spindle.protocol.items import Item, item_text

SUMMARY_PROMPT = """\
The room for this conversation is nearly used up. Write the hand-over note from which another model will finish the \
work. It will see the user's messages and your note, but none of your messages, calls or outputs.

Cover, briefly and in this order:
1. The task as it stands: what the user wants in the end, and what was asked last.
2. What is done, and what was decided on the way and why, dead ends included.
3. What binds the work: limits, preferences and standing rules of the user and the project. Quote each such rule \
word for word.
4. What remains, as concrete next steps.
5. What is needed to go on without looking again: paths, names, commands and their results, numbers, references.
6. Every fact the user asked to keep, word for word.

State only what you know from this conversation. Call no tool; answer with the note alone."""

RULES_HEADING = "The note must hold each of these lines word for word:"

SUMMARY_PREAMBLE = """\
Another model began this work and had to stop for lack of room; what follows is its own summary. Files, running \
processes and everything else the tools did are as it left them. Go on from here: do not redo what is done, and look \
again only at what the summary leaves open."""

NO_SUMMARY = "(no summary available)"
STANDING_RULES = "Standing rules"

LEDGER_OPEN, LEDGER_CLOSE = "<work_ledger>", "</work_ledger>"


def is_summary(item: Item) -> bool:
    """A message of ours that holds the summary of a compaction."""
    return item.get("type") == "message" and item.get("role") == "user" and item_text(item).startswith(SUMMARY_PREAMBLE)


def compaction_warning(times: int) -> str:
    """What people are told after the thread was compacted for the `times`-th time."""
    if times < 3:
        return "The conversation was compacted: the model goes on from a summary and may miss details of it."
    return (
        f"The conversation has now been compacted {times} times, and each time the model remembers less exactly. "
        "For a new piece of work, start a new thread."
    )
