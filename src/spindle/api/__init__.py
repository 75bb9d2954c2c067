"""The Python API: threads and turns in the caller's own process, functions as tools, typed answers."""
