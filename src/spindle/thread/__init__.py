"""The record of threads: history, rollout files, the store that finds them, and what people see of them.

No models, no tools, no queues.
"""
