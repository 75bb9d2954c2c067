"""Commands about threads: `/new`, `/clear`, `/resume`, `/fork`, `/rename`, `/archive`, `/delete`, `/tree`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import msgspec

from spindle.api.door import SessionRequest
from spindle.config.schema import Config
from spindle.errors import SpindleError
from spindle.frontends.fit import counted
from spindle.frontends.tui.commands.lines import INDENT, block, clean, note
from spindle.frontends.tui.commands.picker import age_words, pick_thread
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.status_line import folder_words
from spindle.frontends.tui.views.list import ListView, Row
from spindle.protocol.ops import SetThreadName
from spindle.protocol.settings import ThreadSettings
from spindle.thread.listing import ThreadFilter, ThreadOrder, ThreadSummary
from spindle.thread.store import ThreadStore

_MOST = 1000
_LONGEST_NAME = 200


async def new(desk: Desk, argument: str) -> None:
    """A new thread at once, with the settings of this one."""
    if argument == "worktree":
        from spindle.frontends.tui.commands.worktree import new_in_worktree  # seldom

        await new_in_worktree(desk)
        return
    if argument:
        raise SpindleError("/new takes no argument, or `worktree` for a separate git worktree")
    before = desk.thread.id if is_recorded(desk) and desk.thread is not None else None
    await desk.switch(fresh(desk))
    desk.say("A new thread." if before is None else f"A new thread; /resume {before} goes back to the one before.")


async def clear(desk: Desk, argument: str) -> None:
    """The same on a clear screen; what stood there is in the scrollback."""
    await desk.switch(fresh(desk))
    desk.clear_screen()


def fresh(desk: Desk) -> Callable[[SessionRequest], SessionRequest]:
    """The request for a new thread."""
    config = going_on(desk.config, None if desk.thread is None else desk.thread.settings)

    def change(request: SessionRequest) -> SessionRequest:
        return msgspec.structs.replace(
            request,
            config=config,
            thread=None,
            rollout_path=None,
            newest=False,
            fork=False,
            fork_at=None,
        )

    return change


def going_on(config: Config, settings: ThreadSettings | None, *, in_folder: bool = True) -> Config:
    """The configuration with what was chosen in this session: model, effort, permissions, tone, folder."""
    if settings is None:
        return config
    changed = msgspec.structs.replace(
        config,
        model=settings.model,
        model_reasoning_effort=settings.effort,
        approval_policy=settings.approval_policy,
        granular=settings.granular,
        sandbox=settings.sandbox,
        personality=settings.personality,
    )
    return msgspec.structs.replace(changed, cwd=settings.cwd) if in_folder else changed


# ---- going on with another one -----------------------------------------------------------------------


async def resume(desk: Desk, argument: str) -> None:
    if argument:
        store = ThreadStore(desk.config.home, desk.clock)
        ref = await asyncio.to_thread(store.choose, argument)
        await _open(desk, ref.id, await asyncio.to_thread(_summary, store, ref.id))
        return
    picked = await pick_thread(desk)
    if picked.thread is not None:
        await _open(desk, picked.thread.id, picked.thread)


def _summary(store: ThreadStore, thread_id: str) -> ThreadSummary | None:
    page = store.list(ThreadFilter(), order=ThreadOrder(key="updated_at"), limit=_MOST)
    return next((thread for thread in page.threads if thread.id == thread_id), None)


async def _open(desk: Desk, thread_id: str, summary: ThreadSummary | None) -> None:
    if desk.thread is not None and desk.thread.id == thread_id:
        desk.say("This is the thread that is open.")
        return
    if desk.is_working and not await _may_stop(desk):
        return
    config = await folder_for(desk, summary)
    if config is None:
        return
    await desk.switch(
        lambda request: msgspec.structs.replace(
            request, config=config, thread=thread_id, rollout_path=None, newest=False, fork=False, fork_at=None
        )
    )


async def _may_stop(desk: Desk) -> bool:
    waiting = f"; {counted(len(desk.queued), 'queued message')} back in the composer" if desk.queued else ""
    rows = [
        Row(value=False, name="No, stay here"),
        Row(value=True, name="Yes, stop the turn", about=f"what it did so far is recorded{waiting}"),
    ]
    return bool(await desk.ask(ListView("A turn runs in this thread. Leave it?", rows)))


async def folder_for(desk: Desk, summary: ThreadSummary | None) -> Config | None:
    """The configuration to go on with. A thread of another folder: the person says where; None = nowhere."""
    here = desk.config.cwd
    if summary is None or not summary.cwd or os.path.realpath(summary.cwd) == os.path.realpath(here):
        return desk.config
    if not os.path.isdir(summary.cwd):
        desk.warn(f"The thread's folder {folder_words(summary.cwd)} is gone, so it goes on in {folder_words(here)}.")
        return desk.config
    home = desk.facts.home
    rows = [
        Row(value=True, name="In its own folder", about=folder_words(summary.cwd, home)),
        Row(value=False, name="In this folder", about=folder_words(here, home)),
    ]
    chosen = await desk.ask(ListView("This thread worked in another folder. Where should it go on?", rows))
    if chosen is None:
        return None
    return elsewhere(desk, summary.cwd) if chosen else desk.config


def elsewhere(desk: Desk, cwd: str) -> Config:
    """The configuration for another folder; what was changed about the interface stays."""
    return msgspec.structs.replace(desk.config_for(cwd), tui=desk.config.tui)


async def fork(desk: Desk, argument: str) -> None:
    """Branch off: the thread so far stays as it is, a copy of it goes on."""
    thread_id = _recorded(desk)
    config = going_on(desk.config, None if desk.thread is None else desk.thread.settings)
    await desk.switch(
        lambda request: msgspec.structs.replace(
            request,
            config=config,
            thread=thread_id,
            rollout_path=None,
            newest=False,
            fork=True,
            fork_at=None,
        )
    )
    desk.say(f"Branched off; the thread before is {thread_id}.")


def _recorded(desk: Desk) -> str:
    """The id of the present thread, if something of it is recorded."""
    if desk.thread is None or not is_recorded(desk):
        raise SpindleError("nothing was said in this thread yet")
    return desk.thread.id


def is_recorded(desk: Desk) -> bool:
    """Something of the present thread can be found again."""
    thread = desk.thread
    return thread is not None and thread.path is not None and os.path.exists(thread.path)


# ---- this one ----------------------------------------------------------------------------------------


async def rename(desk: Desk, argument: str) -> None:
    name = " ".join(argument.split())
    if not name:
        desk.set_draft("/rename ")
        desk.say("Say the name: /rename NAME. `spindle resume NAME` finds the thread by it.")
        return
    if len(name) > _LONGEST_NAME:
        raise SpindleError(f"a name has at most {_LONGEST_NAME} characters; this one has {len(name)}")
    await desk.call(SetThreadName(name=name))
    desk.redraw()
    desk.say(f"This thread is now called {clean(name)}.")


async def archive(desk: Desk, argument: str) -> None:
    """Put the thread away and begin a new one."""
    thread_id = _recorded(desk)
    await desk.switch(fresh(desk))
    await asyncio.to_thread(ThreadStore(desk.config.home, desk.clock).archive, thread_id)
    desk.say(f"Put away; `spindle unarchive {thread_id}` brings it back.")


async def delete(desk: Desk, argument: str) -> None:
    thread_id = _recorded(desk)
    store = ThreadStore(desk.config.home, desk.clock)
    ref = await asyncio.to_thread(store.get, thread_id)
    title = clean(await asyncio.to_thread(store.title_of, ref))
    rows = [
        Row(value=False, name="No, keep it", about="/archive puts it away instead"),
        Row(value=True, name="Yes, delete it", about="it cannot be brought back"),
    ]
    if not await desk.ask(ListView("Delete this thread for good?", rows, note=f"{thread_id}\n{title[:200]}")):
        return
    await desk.switch(fresh(desk))
    from spindle.api.undoing import delete_thread  # seldom, and it knows the store of checkpoints

    await asyncio.to_thread(delete_thread, store, thread_id)
    desk.say(f"Deleted {thread_id}.")


# ---- all of them -------------------------------------------------------------------------------------


async def tree(desk: Desk, argument: str) -> None:
    """Which threads branched off which, around the present one."""
    thread_id = _recorded(desk)
    store = ThreadStore(desk.config.home, desk.clock)
    listed = (await asyncio.to_thread(store.list, ThreadFilter(subagents=False), limit=_MOST)).threads
    by_id = {thread.id: thread for thread in listed}
    root = thread_id
    passed = {root}
    while (here := by_id.get(root)) is not None and here.forked_from_id in by_id and here.forked_from_id not in passed:
        root = str(here.forked_from_id)
        passed.add(root)
    lines = _branches(root, by_id, 0, here=thread_id, now=desk.clock.now(), passed=set())
    desk.say(*block("Threads that branched off each other", [*lines, note("/resume ID goes to one of them")]))


def _branches(
    thread_id: str, by_id: dict[str, ThreadSummary], depth: int, *, here: str, now: float, passed: set[str]
) -> list[Line]:
    if thread_id in passed or (thread := by_id.get(thread_id)) is None:
        return []
    passed.add(thread_id)
    start = INDENT + INDENT * min(depth, 8) + ("└ " if depth else "")
    mark = " (this one)" if thread_id == here else ""
    title = clean(thread.name or thread.preview)[:72]
    lines = [
        Line(
            (
                Span(f"{start}{title}{mark} ", "bold" if mark else ""),
                Span(f"{age_words(now - thread.updated_at)}, {thread_id}", "dim"),
            ),
            (Span(" " * (len(start) + 2)),),
        )
    ]
    for each in sorted(by_id.values(), key=lambda one: one.created_at):
        if each.forked_from_id == thread_id:
            lines += _branches(each.id, by_id, depth + 1, here=here, now=now, passed=passed)
    return lines
