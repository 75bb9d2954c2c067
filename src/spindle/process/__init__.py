"""Run a program in a sandbox and follow it."""

is_ours = False
"""Whether this whole process is the command `spindle`, and not a program that embeds the engine.

What belongs to a process as a whole (who inherits its orphans, how often its threads take turns) is changed only then.
"""
