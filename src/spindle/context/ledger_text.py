"""The work ledger as a text for a model: deterministic Markdown within a budget.

Over the budget the oldest goes first, but never a pinned fact or a request of the user before everything else is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from spindle.context.tokens import BYTES_PER_TOKEN, tokens_of_bytes
from spindle.context.truncate import truncate_text
from spindle.protocol.quote import visible

if TYPE_CHECKING:
    from spindle.context.ledger import ReadFile, WorkLedger

PINS, REQUESTS, QUESTIONS, PLAN, AGENTS, CHANGED, READ, RAN, ANSWERED = range(9)
HEADINGS = {
    PINS: "## Facts to keep",
    REQUESTS: "## What the user asked, word for word",
    QUESTIONS: "## Questions that are not answered yet",
    PLAN: "## The plan",
    AGENTS: "## Sub-agents",
    CHANGED: "## Files changed",
    READ: "## Files read; no need to read again what did not change",
    RAN: "## Commands run",
    ANSWERED: "## What the user allowed and refused",
}
"""In the order in which the sections stand."""
_TIERS = {PINS: 0, REQUESTS: 1}
_COMMAND_BYTES = 400
_MARKS = {"completed": "x", "in_progress": ">"}
_LEFT_OUT_TOKENS = 10


class _Line:
    """One entry: its section, how soon it may go (lower tiers last), its age, and how it reads."""

    __slots__ = ("at", "section", "text", "tier")

    def __init__(self, section: int, at: float, text: str, tier: int = 3) -> None:
        self.section = section
        self.at = at
        self.text = text
        self.tier = _TIERS.get(section, tier)


def render(ledger: WorkLedger, budget_tokens: int, *, requests: bool = True, shown: Collection[str] = ()) -> str:
    """The text, at most `budget_tokens` long by the usual estimate; empty when nothing is known or fits."""
    lines = [line for line in _lines(ledger, shown) if requests or line.section != REQUESTS]
    whole = _put_together(lines, {})
    if tokens_of_bytes(len(whole.encode())) <= budget_tokens:
        return whole
    kept = _newest_within(lines, budget_tokens * BYTES_PER_TOKEN)
    counts = {section: sum(line.section == section for line in lines) for section in HEADINGS}
    left_out = {section: count - sum(line.section == section for line in kept) for section, count in counts.items()}
    return _put_together(kept, {section: count for section, count in left_out.items() if count})


def _lines(ledger: WorkLedger, shown: Collection[str]) -> Iterator[_Line]:
    """Everything there is to say, oldest first within each section."""
    for pin in ledger.pins.values():
        yield _Line(PINS, pin.at, _verbatim("fact", pin.text))
    for asked in ledger.requests:
        if asked.text in shown:
            continue
        yield _Line(REQUESTS, asked.at, _verbatim("request", asked.text))
    for question in ledger.questions.values():
        yield _Line(QUESTIONS, question.at, f"- {_short(question.text)}", 2)
    for number, step in enumerate(ledger.plan):
        done = step.status == "completed"
        at = ledger.plan_at - (number + 1) / (len(ledger.plan) + 1)
        yield _Line(PLAN, at, f"- [{_MARKS.get(step.status, ' ')}] {_short(step.step)}", 3 if done else 2)
    for agent in ledger.agents.values():
        tier = 3 if agent.state == "closed" else 2
        yield _Line(AGENTS, agent.at, f"- {_code(agent.id)}, {agent.state}: {_short(agent.task)}", tier)
    for changed in ledger.changes.values():
        yield _Line(CHANGED, changed.at, f"- {changed.change} {_code(changed.path)}{_hash(changed.hash)}")
    for read in ledger.reads.values():
        changed = ledger.changes.get(read.path)
        since = f"; {changed.change} since" if changed is not None and changed.at > read.at else ""
        yield _Line(READ, read.at, f"- {_code(read.path)}: {_extent(read)}{_hash(read.hash)}{since}")
    for ran in ledger.commands.values():
        status = f"exit {ran.exit_code}"
        if ran.exit_code is None:
            status = "not run, or stopped" if ran.session is None else "still running"
        folder = f" in {_code(ran.folder)}" if ran.folder else ""
        times = f", {ran.times} times" if ran.times > 1 else ""
        yield _Line(RAN, ran.at, f"- {_code(ran.command)}{folder}: {status}{times}")
    for approval in ledger.approvals:
        reason = f" ({_short(approval.reason)})" if approval.reason else ""
        granted = approval.is_granted
        said = f"- {'allowed' if granted else 'refused'}: {_code(approval.what)}{reason}"
        yield _Line(ANSWERED, approval.at, said, 3 if granted else 2)


def _newest_within(lines: list[_Line], room: int) -> list[_Line]:
    """What fits: by tier, then the newest. Once an entry of a section did not fit, its older ones are out too."""
    kept: dict[int, _Line] = {}
    open_sections: set[int] = set()
    full: set[tuple[int, int]] = set()
    for place in sorted(range(len(lines)), key=lambda place: (lines[place].tier, -lines[place].at)):
        line = lines[place]
        if (line.tier, line.section) in full:
            continue
        frame = 0 if line.section in open_sections else _frame_bytes(line.section)
        size = len(line.text.encode()) + 1
        if size + frame > room and line.tier < 2 and room - frame > 200:
            # A long request is better cut than gone; the marker needs some room too.
            line = _Line(line.section, line.at, truncate_text(line.text, "bytes", room - frame - 40)[0], line.tier)
            size = len(line.text.encode()) + 1
        if size + frame > room:
            if line.tier < 2:
                break  # nothing of less weight takes the room that this did not find
            full.add((line.tier, line.section))
            continue
        room -= size + frame
        open_sections.add(line.section)
        kept[place] = line
    return [kept[place] for place in sorted(kept)]


def _frame_bytes(section: int) -> int:
    """A section's heading, the empty line before it, and the line that says how much is missing."""
    return len(HEADINGS[section]) + 3 + _LEFT_OUT_TOKENS * BYTES_PER_TOKEN


def _put_together(lines: list[_Line], left_out: dict[int, int]) -> str:
    sections = []
    for section, heading in HEADINGS.items():
        texts = [line.text for line in lines if line.section == section]
        if not texts:
            continue
        missing = left_out.get(section)
        note = [f"- ({missing} more left out)"] if missing else []
        sections.append("\n".join((heading, *note, *texts)))
    return "\n\n".join(sections)


# ---- how things read ---------------------------------------------------------------------------------


def _verbatim(tag: str, text: str) -> str:
    """The very bytes; several lines stand between tags, so that none of them reads as a line of ours."""
    return f"<{tag}>\n{text}\n</{tag}>" if "\n" in text else f"- {text}"


def _short(text: str) -> str:
    """One line that shows what is in it, not too long."""
    return truncate_text(visible(" ".join(text.split())), "bytes", _COMMAND_BYTES)[0]


def _code(text: str) -> str:
    """A path or command as code. Names come from the folder one works in, and may hold anything."""
    shown = truncate_text(visible(text.strip()), "bytes", _COMMAND_BYTES)[0]
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


def _hash(value: str | None) -> str:
    return f", hash {visible(value)}" if value else ""


def _extent(read: ReadFile) -> str:
    if read.first_line is None:
        said = "in part"
    elif read.last_line is None:
        said = "all of it" if read.first_line == 1 else f"from line {read.first_line}"
    else:
        said = f"lines {read.first_line}-{read.last_line}"
    return f"{said}, the middle cut" if read.is_cut else said
