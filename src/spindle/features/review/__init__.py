"""Reviews: a session of its own looks at code, can change nothing, and reports."""
