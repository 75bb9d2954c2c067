"""The context kit: pure functions over a list of items. What is shown of a thread, what it costs, how output is cut."""
