"""`spindle resume` and `spindle fork` on top level: the way back to a thread while there is no interactive screen.

With a prompt they are `spindle exec resume` and `spindle exec fork`; alone they list what there is to go on with.
"""

from __future__ import annotations

import shlex
import sys

from spindle.errors import UsageError
from spindle.frontends.launch import home_from, working_folder
from spindle.frontends.options import Parsed
from spindle.frontends.plain_text import printable
from spindle.protocol.clock import SystemClock
from spindle.thread.listing import ThreadFilter, ThreadOrder
from spindle.thread.store import ThreadStore

SHOWN = 5
TITLE = 64


def run(parsed: Parsed, words: list[str]) -> int:
    action = parsed.command[0]
    is_named = bool(words) or parsed.flag("last")
    if len(words) == (1 if parsed.flag("last") else 2):
        from spindle.frontends.exec import command as exec_command  # only to run something

        parsed.command = ("exec", action)
        return exec_command.run(parsed, words)
    if len(words) > 1:
        raise UsageError(f"unexpected argument {words[1]!r}; put the prompt into quotes")
    if is_named:
        which = words[0] if words else "--last"
        raise UsageError(
            "there is no interactive screen yet, so say what to do next: "
            f'spindle {action} {shlex.quote(which)} "YOUR REQUEST"'
        )
    return _list(action, parsed)


def _list(action: str, parsed: Parsed) -> int:
    cwd = None if parsed.flag("all") else working_folder(parsed.value("cd"))
    here = ThreadFilter(cwds=None if cwd is None else [cwd], subagents=False)
    page = ThreadStore(home_from(), SystemClock()).list(here, order=ThreadOrder(key="updated_at"), limit=SHOWN)
    if not page.threads:
        print("no threads" if cwd is None else "no threads in this folder (--all shows those of others)")
        return 0
    verb = "go on with" if action == "resume" else "branch off"
    print(f"To {verb} a thread, give its id and what to do next:\n")
    for thread in page.threads:
        words = printable(" ".join((thread.name or thread.preview).split()))
        title = words if len(words) <= TITLE else words[: TITLE - 1] + "…"
        print(f'  {title}\n    spindle {action} {thread.id} "YOUR REQUEST"')
    if page.next_cursor is not None:
        print("\n`spindle threads` lists more of them.")
    sys.stdout.flush()
    return 0
