"""Which models a server lists, and how much each of them can read and write, as far as the list tells.

Every kind of server has words of its own for that. What cannot be read is left out: a list is a help, never a must.
"""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.model.server_words import one_line

MOST_MODELS = 1_000
_MOST_TOKENS = 1 << 40
_MOST_DIGITS = 15
_WINDOWS = (
    "context_window",
    "loaded_context_length",  # LM Studio: as the model was loaded
    "max_context_length",
    "context_length",
    "max_model_len",  # vLLM
    "max_input_tokens",  # Anthropic
)
_OUTPUTS = ("max_output_tokens", "max_completion_tokens", "max_tokens")


class ServerModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a server lists."""

    slug: str
    context_window: int | None = None
    max_output_tokens: int | None = None


def read_list(answer: Any) -> list[ServerModel]:
    """The models of a `GET /models` answer: `{"data":[{"id"}]}` as usual, `{"models":[{"slug"}]}` as in catalogues."""
    rows = (answer.get("data") or answer.get("models")) if isinstance(answer, dict) else None
    found: dict[str, ServerModel] = {}
    for row in rows[:MOST_MODELS] if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        slug = next((row[key] for key in ("id", "slug", "name") if isinstance(row.get(key), str)), "")
        if not 0 < len(slug) <= 200 or slug != one_line(slug):
            continue
        found[slug] = ServerModel(slug=slug, context_window=_window(row), max_output_tokens=_tokens(row, _OUTPUTS))
    return list(found.values())


def read_ollama_window(answer: Any) -> int | None:
    """The window in Ollama's answer to `/api/show`: `model_info` has it under the name of the architecture.

    A model may bring a setting along that makes it smaller.
    """
    info = answer.get("model_info") if isinstance(answer, dict) else None
    if not isinstance(info, dict):
        return None
    counts = [_count(value) for key, value in info.items() if isinstance(key, str) and key.endswith(".context_length")]
    return min((count for count in (*counts, _ollama_setting(answer.get("parameters"))) if count), default=None)


def _ollama_setting(parameters: Any) -> int | None:
    """`num_ctx`, among settings with one a line."""
    words = [line.split() for line in parameters.splitlines()] if isinstance(parameters, str) else []
    found = [pair[1] for pair in words if len(pair) == 2 and pair[0] == "num_ctx" and pair[1].isdecimal()]
    return _count(int(found[-1][:_MOST_DIGITS])) if found else None


def _window(row: dict[str, Any]) -> int | None:
    meta = row.get("meta")  # llama.cpp
    of_meta = _tokens(meta, ("n_ctx", "n_ctx_train")) if isinstance(meta, dict) else None
    return _tokens(row, _WINDOWS) or of_meta


def _tokens(row: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((found for name in names if (found := _count(row.get(name))) is not None), None)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < _MOST_TOKENS else None
