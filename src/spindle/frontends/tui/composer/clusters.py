"""Where characters and words end, as a person counts them: a letter with its marks, an emoji made of several parts."""

from __future__ import annotations

_JOINER = "\u200d"


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _continues(char: str) -> bool:
    """It belongs to the character before it: a mark, a joiner, a variation, a skin tone, a tag."""
    if char < "\u0300":
        return False
    if char == _JOINER or "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff":
        return True
    if "\U000e0020" <= char <= "\U000e007f":
        return True
    import unicodedata  # only where there is more than plain letters

    return unicodedata.category(char) in ("Mn", "Me", "Mc")


def start_before(text: str, place: int) -> int:
    """Where the character that ends at `place` begins."""
    if place <= 0:
        return 0
    start = place - 1
    while start > 0 and text[start] != "\n":
        before = text[start - 1]
        if before == "\n" or not (_continues(text[start]) or before == _JOINER):
            break
        start -= 1
    if _is_regional(text[start]):
        # Flags are pairs, counted from where the row of such letters begins.
        first = start
        while first > 0 and _is_regional(text[first - 1]):
            first -= 1
        return start - 1 if (start - first) % 2 else start
    return start


def end_after(text: str, place: int) -> int:
    """Where the character that begins at `place` ends."""
    if place >= len(text):
        return len(text)
    end = place + 1
    if text[place] == "\n":
        return end
    if _is_regional(text[place]) and end < len(text) and _is_regional(text[end]):
        end += 1
    while end < len(text) and text[end] != "\n" and (_continues(text[end]) or text[end - 1] == _JOINER):
        end += 1
    return end


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_" or _continues(char)


def word_start_before(text: str, place: int) -> int:
    """Where the word before `place` begins; signs in a row, such as `://`, are a word too."""
    while place > 0 and text[place - 1].isspace():
        place -= 1
    if place > 0:
        kind = _is_word(text[place - 1])
        while place > 0 and not text[place - 1].isspace() and _is_word(text[place - 1]) is kind:
            place -= 1
    return place


def word_end_after(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    if place < len(text):
        kind = _is_word(text[place])
        while place < len(text) and not text[place].isspace() and _is_word(text[place]) is kind:
            place += 1
    return place
