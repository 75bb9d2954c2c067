"""Who said it: where the texts in a prompt come from, and the form in which each origin speaks.

Rights come from the person, the administrator and the program alone. Everything else is material. What is put into a
prompt on behalf of a weaker origin stands in a block whose tag says whose words they are, and those words can neither
close that block nor open one of ours: `defused` takes the tags out of them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

Origin = Literal["person", "administrator", "program", "repository", "model", "tool", "server", "thread"]
"""`program` is Spindle itself, or the one that embeds it; `thread` is another thread, of a sub-agent for instance."""
GIVES_RIGHTS: frozenset[Origin] = frozenset(("person", "administrator", "program"))

BLOCKS: dict[str, Origin] = {
    "permissions instructions": "program",
    "environment_context": "program",
    "collaboration_mode": "program",
    "personality_spec": "program",
    "model_switch": "program",
    "turn_aborted": "program",
    "user_action": "program",
    "codex_internal_context": "program",
    "instructions": "repository",
    "user_instructions": "repository",
    "skills_instructions": "repository",
    "skill": "repository",
    "project_notes": "model",
    "work_ledger": "model",
    "user_shell_command": "tool",
    "hook_prompt": "tool",
    "hook_context": "tool",
}
"""Every tag that begins a block of ours in a prompt, in lower case, and whose words stand in it."""


def block(tag: str, text: str) -> str:
    """A text between tags of ours. Words of an origin that gives no rights cannot get out of it."""
    inside = text if BLOCKS[tag.lower()] in GIVES_RIGHTS else defused(text)
    return f"<{tag}>\n{inside}\n</{tag}>"


def defused(text: str) -> str:
    r"""The text without tags of ours: the `<` of each becomes `\u{3C}`. All else stays as it is, other tags too."""
    return text if "<" not in text else _our_tags().sub(r"\\u{3C}", text)


def defused_name(name: str) -> str:
    """The same for a name that stands inside a tag or between backticks: of a folder, a file, a skill."""
    return name.replace("<", "\\u{3C}").replace("`", "\\u{60}") if "<" in name or "`" in name else name


@cache
def _our_tags() -> re.Pattern[str]:
    """The `<` of an opening or closing tag of ours, however it is spelled: spaces, capitals, hidden characters."""
    hidden = "[\xad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]*"

    def spelled(tag: str) -> str:
        return hidden.join(r"[\s_-]+" if char in " _" else re.escape(char) for char in tag)

    names = "|".join(spelled(tag) for tag in sorted(BLOCKS, key=len, reverse=True))
    gap = rf"(?:\s|{hidden[:-1]})*"
    return re.compile(rf"<(?={gap}/?{gap}(?:{names})(?!{hidden}[\w.-]))", re.IGNORECASE)
