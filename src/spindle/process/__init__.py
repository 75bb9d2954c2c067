"""Run a program in a sandbox and follow it."""

import os
import sys

is_ours = "spindle.frontends.cli" in sys.modules
"""Whether this whole process is the command `spindle`: then its command line was loaded before anything else.

What belongs to a process as a whole (who inherits its orphans, how often its threads take turns) is changed only then,
and left alone in a program that embeds the engine.
"""


def tidy_up_after_a_crash(home: str) -> None:
    """An agent that was killed could not remove what it had made for a moment; it is listed in its home."""
    try:
        names = os.listdir(f"{home}/spindle")
    except OSError:
        return
    # `placeholders.REGISTER_PREFIX`, written out: that module is loaded with the first sandbox, not at start-up.
    owners = [name.removeprefix("guards-") for name in names if name.startswith("guards-")]
    if any(not os.path.exists(f"/proc/{pid}") for pid in owners):
        from spindle.process.sandbox.placeholders import placeholders_of  # rarely needed

        placeholders_of(home).recover()
    if any(name.startswith("unfinished-") for name in names):
        from spindle.process import leftovers  # rarely needed

        leftovers.recover(home)
