"""Pure data: what goes into a session (ops), what comes out (events), and what a thread is made of (items).

Imports msgspec and the standard library, nothing of ours but `errors`.
"""
