"""Run a program in a sandbox and follow it."""

import sys

is_ours = "spindle.frontends.cli" in sys.modules
"""Whether this whole process is the command `spindle`: then its command line was loaded before anything else.

What belongs to a process as a whole (who inherits its orphans, how often its threads take turns) is changed only then,
and left alone in a program that embeds the engine.
"""
