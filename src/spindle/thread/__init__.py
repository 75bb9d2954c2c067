"""The record of threads: history, rollout files, the store that finds them, and how people see them.

No models, no tools, no queues.
"""
