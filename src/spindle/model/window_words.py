"""How servers say that a conversation does not fit into the model's window. Loaded only when something failed."""

from __future__ import annotations

import re

from spindle.model.server_words import ServerWords

_CODES = frozenset(
    (
        *("context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"),
        *("context_window_exceeded", "request_too_large"),
    )
)
_WORDS = re.compile(
    r"prompt is too long|input is too long|too long for requested model|too long to fit into the model"
    r"|too many tokens(?! per)|context_?window_?exceeded_?error|maximum (?:context|prompt) length"
    r"|exceeds? (?:the )?(?:model'?s? |available |maximum )*context (?:length|size|window|limit)"
    r"|context (?:length|size|window|limit)(?: was| is| of the model)? (?:exceeded|full)"
    r"|input token count.{0,40}exceeds|greater than the context length|longer than the context (?:length|window)",
    re.IGNORECASE,
)

_NUMBER = r"(\d[\d,_]{2,12})"
_SIZE = rf"(?:length|size|window|limit)(?: is| of|:)? ?\(?{_NUMBER}"
_LIMITS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:maximum|max|available|model'?s) (?:context|prompt|input) {_SIZE}",
        rf"\d ?(?:tokens?)? ?> ?{_NUMBER}",
        rf"{_NUMBER}(?: tokens?)? maximum context",
        rf"\btokens\b.{{0,40}}cannot exceed {_NUMBER}",
        rf"maximum number of tokens allowed \(?{_NUMBER}",
        rf"context {_SIZE}",
    )
]
_LEAST_WINDOW, _MOST_WINDOW = 512, 100_000_000


def is_overflow(status: int, words: ServerWords) -> bool:
    """The conversation is too long for the model; `status` 0 is an event's."""
    return bool(words.codes & _CODES) or (status in (0, 400, 422) and _WORDS.search(words.text) is not None)


def named_window(words: ServerWords) -> int | None:
    """How many tokens the model's window has, if the server says so."""
    given = words.fields.get("n_ctx")
    if not isinstance(given, int):
        found = next((found for pattern in _LIMITS if (found := pattern.search(words.text))), None)
        given = int(re.sub(r"[,_]", "", found[1])) if found else 0
    return given if _LEAST_WINDOW <= given <= _MOST_WINDOW else None
