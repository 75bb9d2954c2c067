"""Cells: what happened in a thread, as a person reads it. Events in, lines out; no terminal, no clock of its own.

`conversation.py` is the reducer: read it first. The other modules are one kind of cell each.
"""
