"""`/status` and `/cost`: where the session stands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

from spindle import __version__
from spindle.errors import SpindleError
from spindle.frontends.context_terms import Terms
from spindle.frontends.context_words import cost_words, money, summary_words
from spindle.frontends.plain_text import reading_words, sandbox_line
from spindle.frontends.tui.commands.lines import block, fields, note
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.status_line import MODE_WORDS, folder_words, tokens_words
from spindle.frontends.when import local_time
from spindle.protocol.answers import ContextUsage
from spindle.protocol.ops import GetContext
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import ThreadSettings
from spindle.workspace.git import strip_credentials

_Pairs = Iterator[tuple[str, str]]


async def show(desk: Desk, argument: str) -> None:
    """Everything a person may want to know about the session, by name."""
    if desk.thread is None:
        raise SpindleError("the session is still being opened; try again in a moment")
    settings = desk.thread.settings
    docs, sandbox = await asyncio.gather(asyncio.to_thread(_documents, desk, settings.cwd), sandbox_words(desk))
    usage = await desk.call(GetContext())
    pairs = [
        *_who(desk, settings),
        ("folder", folder_words(settings.cwd, os.path.expanduser("~"))),
        ("branch", desk.facts.branch or ""),
        ("permissions", permission_words(settings)),
        ("sandbox in force", sandbox),
        *(("AGENTS.md", path) for path in docs or ["none"]),
        ("mode", MODE_WORDS.get(desk.facts.mode, "default")),
        ("goal", _goal(desk)),
        *_thread(desk),
        *_tokens(desk.thread.usage),
        *(_window(usage) if isinstance(usage, ContextUsage) else ()),
        *_limits(desk.thread.rate_limits),
        *(("MCP server", f"{name}: {state}") for name, state in desk.seen.servers.items()),
    ]
    desk.say(*block(f"Spindle {__version__}", fields(pairs)))


def _goal(desk: Desk) -> str:
    if not desk.facts.goal:
        return ""
    from spindle.frontends.goal_words import goal_text  # only for those who have one
    from spindle.frontends.tui.commands.goal import present_goal  # likewise

    return goal_text(present_goal(desk))


def _who(desk: Desk, settings: ThreadSettings) -> _Pairs:
    assert desk.thread is not None
    provider = desk.config.providers.get(settings.model_provider, desk.config.provider)
    effort = desk.thread.effort
    yield "model", settings.model + (f", effort {effort}" if effort else "") + f", summaries {settings.summary}"
    address = strip_credentials(provider.base_url or "")
    yield "provider", f"{provider.name or provider.id} ({address})" if address else provider.name or provider.id


def permission_words(settings: ThreadSettings) -> str:
    """When a person is asked, and what commands can reach."""
    asked = {
        "untrusted": "you are asked about every command that is not known to be harmless",
        "on-request": "you are asked when something wants to leave the sandbox",
        "on-failure": "you are asked when the sandbox stops something",
        "never": "you are never asked",
    }[settings.approval_policy]
    if settings.granular is not None:
        refused = settings.granular.refused
        asked += f"; a no without asking: {', '.join(refused)}" if refused else ""
    return f"{sandbox_line(settings.sandbox)}; {settings.approval_policy}: {asked}"


async def sandbox_words(desk: Desk) -> str:
    """What really confines commands on this machine."""
    from spindle.process.sandbox import backend_of, problem  # only for those who ask

    fence = desk.config.spindle.fence
    sandbox = desk.config.sandbox if desk.thread is None else desk.thread.settings.sandbox
    if desk.thread is not None and sandbox.is_full_access:
        return "none: commands run with all your rights"
    if (reason := await problem(fence)) is not None:
        return f"none: {reason}"
    return f"{backend_of(fence)}; {reading_words(fence.read, sandbox.permissions)}"


def _documents(desk: Desk, cwd: str) -> list[str]:
    from spindle.workspace.agents_md import load_project_docs  # only for those who ask

    config = desk.config
    found = load_project_docs(
        cwd,
        config.home,
        max_bytes=config.project_doc_max_bytes,
        fallback_names=config.project_doc_fallback_filenames,
        root_markers=config.project_root_markers,
        include_project=config.trust_level == "trusted" or config.spindle.agents_md_untrusted,
        is_trusted=config.trust_level == "trusted",
    )
    return [folder_words(path, os.path.expanduser("~")) for path in found.sources]


def _thread(desk: Desk) -> _Pairs:
    assert desk.thread is not None
    yield "session", desk.thread.id
    yield "name", desk.facts.thread_name or desk.thread.name or ""
    yield "recorded in", folder_words(desk.thread.path or "", os.path.expanduser("~")) or "nowhere"


def _tokens(usage: TokenUsage) -> _Pairs:
    cached = f" ({usage.cached_input_tokens:,} of it cached)" if usage.cached_input_tokens else ""
    thinking = f" ({usage.reasoning_output_tokens:,} of it reasoning)" if usage.reasoning_output_tokens else ""
    yield "tokens", f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out{thinking}"


def _window(usage: ContextUsage) -> _Pairs:
    if usage.window is None:
        yield "context", f"{usage.used:,} tokens used; the size of the window is not known"
        return
    yield "context", f"{usage.percent_left}% left: {usage.used:,} of {tokens_words(usage.window)} tokens used"


def _limits(limits: dict[str, Any] | None) -> _Pairs:
    for name, words in (("primary", "short limit"), ("secondary", "long limit")):
        found = (limits or {}).get(name)
        used = found.get("used_percent") if isinstance(found, dict) else None
        if isinstance(found, dict) and isinstance(used, int | float):
            yield words, f"{max(0, 100 - round(used))}% left{_resets(found)}"
    if not limits:
        yield "limits", "the server has not named any"


def _resets(window: dict[str, Any]) -> str:
    from datetime import UTC, datetime  # only where a server names limits

    at, minutes = window.get("resets_at"), window.get("window_minutes")
    span = f" of {minutes // 60} h" if isinstance(minutes, int) and minutes >= 60 else ""
    if not isinstance(at, int):
        return span
    try:
        return f"{span}, renewed {local_time(datetime.fromtimestamp(at, UTC))}"
    except (ValueError, OverflowError, OSError):
        return span


# ---- money -------------------------------------------------------------------------------------------


async def cost(desk: Desk, argument: str) -> None:
    """What the thread cost, over all its turns and processes, as far as prices are known."""
    if desk.thread is None or not desk.thread.records:
        raise SpindleError("this thread has sent no request yet, so it has cost nothing")
    found = await inspection(desk)
    if found is None:
        usage = desk.thread.usage
        prices = Terms(lambda: desk.config, desk.thread.settings.model_provider).prices_of(desk.thread.settings.model)
        known = money(prices.cost_of(usage) / 1e6) if prices is not None else "unknown: no price is known"
        desk.say(*block("Cost of this thread", fields([*_tokens(usage), ("cost", known)])))
        return
    work, tokens, _ = summary_words(found.report)
    pairs = [("work", work), ("tokens", tokens), ("cost", cost_words(found.report))]
    desk.say(*block("Cost of this thread", [*fields(pairs), note("/context past shows it request by request")]))


async def inspection(desk: Desk) -> Any:
    """What the record tells about its requests; None when the thread is not recorded."""
    from spindle.lookback.inspection import inspect_thread  # heavy, and seldom wanted
    from spindle.thread.store import ThreadRef, ThreadStore  # the same

    thread = desk.thread
    if thread is None or thread.path is None or not os.path.exists(thread.path):
        return None
    store, ref = ThreadStore(desk.config.home, desk.clock), ThreadRef(id=thread.id, path=thread.path)
    terms = Terms(lambda: desk.config, thread.settings.model_provider)
    return await asyncio.to_thread(lambda: inspect_thread(store.read(ref), terms.prices_of))
