"""Where a person writes: the draft with its folded pastes and images, its keys, its history, and the lists that help.

`composer.py` is what the interface uses; it paints an empty composer without loading the editor (`editing.py`), which
comes with the first key.
"""
