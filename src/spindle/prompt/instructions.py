"""The base instructions of a thread: which text, and the personality baked into it.

Chosen once when a thread starts and fixed for its life. What changes later is appended by `snapshot.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from spindle.prompt.bundled import text

PLACEHOLDER = "{{ personality }}"
FAMILIES = ("codex", "gpt", "default", "small", "tiny", "inside")


def choose_instructions(
    *,
    explicit: str | None = None,
    recorded: str | None = None,
    file_text: str | None = None,
    template: str | None = None,
    template_variables: Mapping[str, str | None] | None = None,
    model_text: str | None = None,
    family: str = "default",
    personality: str = "pragmatic",
) -> str:
    """The base text: given for this thread, recorded in it, the user's file, the model's own, or a bundled one."""
    for given in (explicit, recorded, file_text):
        if given:
            return given
    if template:
        return template.replace(PLACEHOLDER, _variable(template_variables or {}, personality))
    return model_text or bundled_instructions(family, personality)


@lru_cache(maxsize=8)  # one copy for all threads
def bundled_instructions(family: str, personality: str = "pragmatic") -> str:
    """Our text for a family of models."""
    return text(family if family in FAMILIES else "default").replace(PLACEHOLDER, personality_text(personality))


def personality_text(personality: str) -> str:
    """The style a personality asks for; empty for `none`."""
    return text(f"personality_{personality}") if personality in ("friendly", "pragmatic") else ""


def _variable(variables: Mapping[str, str | None], personality: str) -> str:
    if personality == "none":
        return ""
    chosen = variables.get(f"personality_{personality}")
    return chosen if chosen is not None else variables.get("personality_default") or ""
