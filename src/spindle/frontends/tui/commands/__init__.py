"""The slash commands: `table.py` lists them, `running.py` finds and runs one, the others do the work, by subject."""
