"""The row under the composer, and the title of the terminal: which facts they show, in which order, in which words.

Pure: `app.py` fills `StatusFacts` as events come in, and asks for the row with each frame. Nothing here reads a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from spindle import __version__
from spindle.frontends.fit import cells, counted, cut
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text import clean

State = Literal["starting", "idle", "working", "waiting"]
"""Waiting: for a person's answer."""

STATE_WORDS: dict[State, str] = {"starting": "Starting", "idle": "Ready", "working": "Working", "waiting": "Waiting"}
STATE_MARKS: dict[State, str] = {"starting": "", "idle": "", "working": "●", "waiting": "▲"}
MODE_WORDS = {"plan": "Plan mode", "auto-edit": "Auto-edit"}
GOAL_WORDS = {
    "active": "Goal",
    "paused": "Goal paused",
    "blocked": "Goal blocked",
    "usageLimited": "Goal stopped",
    "budgetLimited": "Goal stopped",
}
"""Nothing is said of one that is reached."""
SEPARATOR = " · "


class StatusFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the session at this moment. A field that is None or empty is left out of the row."""

    state: State = "starting"
    model: str = ""
    effort: str | None = None
    cwd: str = ""
    project: str = ""
    """The root of the repository, if the folder is in one."""
    branch: str | None = None
    mode: str = "default"
    """"default", "plan" or "auto-edit"."""
    permissions: str = ""
    """The sandbox mode or permission profile, and when a person is asked."""
    sandbox: str = ""
    """The sandbox mode, or the name of the permission profile."""
    weakness: str = ""
    """In which way commands are confined less than was asked for; empty = they are not."""
    has_network: bool = False
    """Commands reach the network although they are confined."""
    thread_id: str = ""
    thread_name: str | None = None
    window: int | None = None
    context_used: int | None = None
    context_left: int | None = None
    """Per cent of the window."""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None = no price is known for the model."""
    queued: int = 0
    background: int = 0
    warnings: int = 0
    agents: int = 0
    """Sub-agents that run."""
    rate_limits: dict[str, Any] | None = None
    plan: tuple[int, int] = (0, 0)
    """Steps of the checklist: those that are done, and all."""
    goal: str = ""
    """The status of the thread's goal."""
    is_raw: bool = False
    home: str = ""
    """The person's home folder, shown as `~`."""


def folder_words(cwd: str, home: str = "") -> str:
    """A folder as people write it, below `~` where it is."""
    if home and home != "/" and (cwd == home or cwd.startswith(home.rstrip("/") + "/")):
        cwd = "~" + cwd[len(home.rstrip("/")) :]
    return clean.name(cwd)


def folder_name(cwd: str) -> str:
    return clean.name(os.path.basename(cwd.rstrip("/")) or cwd)


def tokens_words(tokens: int) -> str:
    """`950`, `4.3k`, `1.2M`."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 999_950:
        return f"{tokens / 1000:.1f}k".replace(".0k", "k")
    return f"{tokens / 1_000_000:.1f}M".replace(".0M", "M")


def money_words(dollars: float) -> str:
    return f"${dollars:,.{2 if dollars >= 1 else 3 if dollars >= 0.01 else 4}f}"


# ---- one function an item --------------------------------------------------------------------------


def _model_with_effort(facts: StatusFacts) -> str:
    return " ".join(part for part in (clean.name(facts.model), clean.name(facts.effort or "")) if part)


def _tokens(facts: StatusFacts) -> str:
    if not facts.input_tokens and not facts.output_tokens:
        return ""
    return f"{tokens_words(facts.input_tokens)} in, {tokens_words(facts.output_tokens)} out"


def _spent(facts: StatusFacts) -> str:
    return money_words(facts.cost_usd) if facts.cost_usd else _tokens(facts)


def _cached(facts: StatusFacts) -> str:
    if not facts.input_tokens or not facts.cached_tokens:
        return ""
    return f"{100 * min(facts.cached_tokens, facts.input_tokens) // facts.input_tokens}% cached"


def _sandbox(facts: StatusFacts) -> str:
    return "" if _sandbox_warning(facts) else clean.name(facts.sandbox)


def _sandbox_warning(facts: StatusFacts) -> str:
    weakness = "full access" if facts.sandbox == "danger-full-access" else facts.weakness
    return f"⚠ {clean.name(weakness)}" if weakness else ""


def _limit(name: str) -> Callable[[StatusFacts], str]:
    def words(facts: StatusFacts) -> str:
        found = (facts.rate_limits or {}).get(name)
        used = found.get("used_percent") if isinstance(found, dict) else None
        if not isinstance(used, int | float):
            return ""
        return f"{'short' if name == 'primary' else 'long'} limit {max(0, 100 - round(used))}% left"

    return words


ITEMS: dict[str, Callable[[StatusFacts], str]] = {
    # as Codex calls them
    "model-with-reasoning": _model_with_effort,
    "model": lambda facts: clean.name(facts.model),
    "model-name": lambda facts: clean.name(facts.model),
    "reasoning": lambda facts: clean.name(facts.effort or ""),
    "current-dir": lambda facts: folder_words(facts.cwd, facts.home),
    "project-name": lambda facts: folder_name(facts.project) if facts.project else "",
    "project-root": lambda facts: folder_words(facts.project, facts.home),
    "hostname": lambda _: clean.name(os.uname().nodename),
    "git-branch": lambda facts: clean.name(facts.branch or ""),
    "run-state": lambda facts: STATE_WORDS[facts.state],
    "permissions": lambda facts: clean.name(facts.permissions),
    "approval-mode": lambda facts: clean.name(facts.permissions),
    "context-remaining": lambda facts: "" if facts.context_left is None else f"{facts.context_left}% context left",
    "context-used": lambda facts: "" if facts.context_left is None else f"{100 - facts.context_left}% context used",
    "context-window-size": lambda facts: f"{tokens_words(facts.window)} window" if facts.window else "",
    "used-tokens": lambda facts: f"{tokens_words(facts.context_used)} used" if facts.context_used else "",
    "total-input-tokens": lambda facts: f"{tokens_words(facts.input_tokens)} in" if facts.input_tokens else "",
    "total-output-tokens": lambda facts: f"{tokens_words(facts.output_tokens)} out" if facts.output_tokens else "",
    "estimated-thread-cost": lambda facts: money_words(facts.cost_usd) if facts.cost_usd else "",
    "five-hour-limit": _limit("primary"),
    "weekly-limit": _limit("secondary"),
    "codex-version": lambda _: f"Spindle {__version__}",
    "session-id": lambda facts: clean.name(facts.thread_id),
    "thread-id": lambda facts: clean.name(facts.thread_id),
    "thread-name": lambda facts: clean.name(facts.thread_name or ""),
    "thread-title": lambda facts: clean.name(facts.thread_name or facts.thread_id),
    "task-progress": lambda facts: f"{facts.plan[0]}/{facts.plan[1]} steps" if facts.plan[1] else "",
    "raw-output": lambda facts: "raw" if facts.is_raw else "",
    # our own
    "mode": lambda facts: MODE_WORDS.get(facts.mode, ""),
    "goal": lambda facts: GOAL_WORDS.get(facts.goal, ""),
    "cached": _cached,
    "queue": lambda facts: f"{facts.queued} queued" if facts.queued else "",
    "background": lambda facts: f"{facts.background} in background" if facts.background else "",
    "agents": lambda facts: counted(facts.agents, "agent") if facts.agents else "",
    "warnings": lambda facts: f"⚠ {counted(facts.warnings, 'warning')}" if facts.warnings else "",
    "spent": _spent,
    "tokens": _tokens,
    "network": lambda facts: "network" if facts.has_network else "",
    "sandbox": _sandbox,
    "sandbox-warning": _sandbox_warning,
}
"""The items `[tui] status_line` can name. Each gives its words, or nothing when there is nothing to tell."""

ITEM_WORDS: dict[str, str] = {
    "model-with-reasoning": "model and reasoning effort",
    "model": "model",
    "reasoning": "reasoning effort",
    "current-dir": "working folder",
    "project-name": "name of the repository's folder",
    "project-root": "root of the repository",
    "hostname": "name of this machine",
    "git-branch": "git branch",
    "run-state": "ready, working or waiting for you",
    "permissions": "sandbox and when you are asked",
    "context-remaining": "how much of the context window is left",
    "context-used": "how much of the context window is used",
    "context-window-size": "size of the context window",
    "used-tokens": "tokens in the context window",
    "total-input-tokens": "tokens sent, over the whole thread",
    "total-output-tokens": "tokens received, over the whole thread",
    "estimated-thread-cost": "what the thread cost, where prices are known",
    "five-hour-limit": "what is left of the account's short limit",
    "weekly-limit": "what is left of the account's long limit",
    "codex-version": "version of Spindle",
    "thread-id": "id of the thread",
    "thread-name": "name of the thread",
    "thread-title": "name of the thread, or its id",
    "task-progress": "steps of the plan that are done",
    "raw-output": "whether answers are shown as they were written",
    "mode": "plan mode or auto-edit",
    "goal": "whether a goal is worked on",
    "cached": "share of the input that came from the provider's cache",
    "queue": "messages that wait for the end of the turn",
    "background": "commands that run in the background",
    "agents": "sub-agents that run",
    "warnings": "warnings of this session",
    "spent": "money of the thread, or its tokens",
    "tokens": "tokens of the thread",
    "network": "whether confined commands reach the network",
    "sandbox": "the sandbox",
    "sandbox-warning": "full access, or a sandbox that is weaker than asked for",
}
"""What a person is told about an item when they choose; the others are older names for the same."""

DEFAULT_ITEMS = (
    *("model-with-reasoning", "current-dir", "mode", "goal", "sandbox-warning", "context-remaining", "queue"),
    *("background", "agents", "warnings", "git-branch", "sandbox", "network", "cached", "spent"),
)
ALWAYS = ("mode", "sandbox-warning")
"""A person must not miss these, so they stand at the end of a row whose items were chosen without them."""


def items_from(chosen: Any) -> tuple[str, ...]:
    """The items of `[tui] status_line`: those we know, in the person's order; the usual ones when nothing is set."""
    if not isinstance(chosen, list | tuple):
        return DEFAULT_ITEMS
    known = tuple(item for item in chosen if isinstance(item, str) and item in ITEMS)
    return (*known, *(item for item in ALWAYS if item not in known))


def status_line(
    facts: StatusFacts, width: int, items: Sequence[str] = DEFAULT_ITEMS, *, has_colors: bool = True, indent: str = "  "
) -> Line:
    """The row: items that have something to say, cut at the right."""
    spans: list[Span] = [Span(indent)]
    room = width - cells(indent)
    for name, words in _told(facts, items):
        separator = SEPARATOR if len(spans) > 1 else ""
        if cells(separator) + min(cells(words), 4) > room:
            break
        shown = cut(words, room - cells(separator))
        if separator:
            spans.append(Span(separator, "dim"))
        spans.append(Span(shown, _look(name, shown) if has_colors else "dim"))
        room -= cells(separator) + cells(shown)
        if shown != words:
            break
    return Line(tuple(spans)) if len(spans) > 1 else Line()


def _look(name: str, words: str) -> str:
    return "warning" if words.startswith("⚠") else "accent" if name == "mode" else "dim"


def _told(facts: StatusFacts, items: Iterable[str]) -> Iterable[tuple[str, str]]:
    for name in items:
        if (tell := ITEMS.get(name)) is not None and (words := " ".join(tell(facts).split())):
            yield name, words


# ---- the title ---------------------------------------------------------------------------------------

TITLE_ITEMS: dict[str, Callable[[StatusFacts], str]] = {
    **ITEMS,
    "activity": lambda facts: STATE_MARKS[facts.state],
    "spinner": lambda facts: STATE_MARKS[facts.state],
    "status": lambda facts: STATE_WORDS[facts.state],
    "app-name": lambda _: "spindle",
    "project": lambda facts: folder_name(facts.project or facts.cwd),
    "project-name": lambda facts: folder_name(facts.project or facts.cwd),
    "current-dir": lambda facts: folder_name(facts.cwd),
    "thread": lambda facts: clean.name(facts.thread_name or ""),
}
DEFAULT_TITLE = ("activity", "current-dir")
MOST_TITLE = 80


def title_items_from(chosen: Any) -> tuple[str, ...]:
    """The items of `[tui] terminal_title`; an empty list means that the title is left alone."""
    if not isinstance(chosen, list | tuple):
        return DEFAULT_TITLE
    return tuple(item for item in chosen if isinstance(item, str) and item in TITLE_ITEMS)


def title_text(facts: StatusFacts, items: Sequence[str] = DEFAULT_TITLE) -> str:
    """The words for the title: a mark for the state, then the folder. It has no control character and is one line."""
    text = ""
    for name in items:
        words = " ".join(TITLE_ITEMS[name](facts).split()) if name in TITLE_ITEMS else ""
        if words:
            text += words if not text else f" {words}" if text in STATE_MARKS.values() else f" | {words}"
    return clean.title(text, MOST_TITLE)
