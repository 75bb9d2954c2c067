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
    "developer": "program",
    "instructions": "repository",
    "user_instructions": "repository",
    "skills_instructions": "repository",
    "skill": "repository",
    "project_notes": "model",
    "work_ledger": "model",
    "user_shell_command": "tool",
    "hook_prompt": "tool",
    "hook_context": "tool",
    "tool_result": "tool",
    "external_message": "tool",
}
"""Every tag that begins a block of ours in a prompt, in lower case, and whose words stand in it."""


def block(tag: str, text: str) -> str:
    """A text between tags of ours. Words of an origin that gives no rights cannot get out of it."""
    inside = text if BLOCKS[tag.lower()] in GIVES_RIGHTS else defused(text)
    return f"<{tag}>\n{inside}\n</{tag}>"


def defused(text: str) -> str:
    r"""The text without tags of ours: the `<` of each becomes `\u{3C}`. All else stays as it is, other tags too."""
    if text.isascii():
        return _our_tags().sub(_escaped, text) if "<" in text or "&" in text else text
    # Found in the text as a reader takes it in, exchanged in the text as it is: both are of the same length.
    pieces: list[str] = []
    end = 0
    for found in _our_tags().finditer(text.translate(_look_alikes())):
        pieces += (text[end : found.start()], _escaped(found))
        end = found.end()
    return "".join((*pieces, text[end:])) if pieces else text


def defused_parts(text: str, *tags: str) -> str:
    """Without those tags as well: they are the parts of a block of ours that has several."""
    parts = "|".join(map(re.escape, tags))
    return re.sub(rf"<(?=\s*(?:/\s*)?(?:{parts})\b)", r"\\u{3C}", defused(text), flags=re.IGNORECASE)


def defused_name(name: str) -> str:
    """The same for a name that stands inside a tag or between backticks: of a folder, a file, a skill."""
    return name.replace("<", "\\u{3C}").replace("`", "\\u{60}") if "<" in name or "`" in name else name


def _escaped(found: re.Match[str]) -> str:
    return "\\u{26}" if found[0] == "&" else "\\u{3C}"


@cache
def _our_tags() -> re.Pattern[str]:
    """The `<` of an opening or closing tag of ours, however it is spelled: spaces, capitals, hidden characters, and the
    `&` of one that is written as an entity."""
    # No two repetitions of the same characters side by side: a long row of them would be tried in every division.
    hidden, gap = f"{_HIDDEN}*", rf"(?:\s|{_HIDDEN})*"
    apart = rf"(?:[\s_-]|{_HIDDEN})*"

    def spelled(tag: str) -> str:
        return apart.join(hidden.join(map(re.escape, word)) for word in re.split("[ _]", tag))

    names = "|".join(spelled(tag) for tag in sorted(BLOCKS, key=len, reverse=True))
    name = rf"{gap}(?:/{gap})*(?:{names})(?!{hidden}[\w.-])"
    entity = r"&(?=(?:amp;)*(?:lt|#0*60|#x0*3c);?" + name + ")"
    return re.compile(rf"<(?={name})|{entity}", re.IGNORECASE)


_HIDDEN = "[\x00-\x08\x0e-\x1f\x7f\xad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"


class _LookAlikes(dict[int, int]):
    """What characters of other scripts pass for, one for one; filled as they are met."""

    def __missing__(self, code: int) -> int:
        self[code] = found = code if code < 0x80 else _look_alike(chr(code))
        return found


_OTHERS = (
    "\u02c2\u1438\u2039\u2329\u276c\u276e\u27e8\u3008\u29fc\u2044\u2215\u29f8\u2571\u02cd\u0430\u0251\u03b1"
    "\u0441\u03f2\u1d04\u0501\u0435\u0454\u04bb\u0456\u03b9\u0131\u04cf\u0458\u043a\u03ba\u04c0\u01c0\u043c"
    "\u1d0d\u0578\u0274\u043e\u03bf\u0585\u0440\u03c1\u0433\u0280\u0455\ua731\u0442\u03c4\u1d1b\u057d\u03c5"
    "\u1d1c\u0475\u03bd\u051d\u0461\u0445\u03c7\u0443\u03b3\u04af\u0421\u03f9\u0415\u0395\u0406\u0399\u041a"
    "\u039a\u041c\u039c\u039d\u041e\u039f\u0420\u03a1\u13a1\u0405\u0422\u03a4\u054d\u0474\u0410\u0391\u216c"
    "\u216e\u226a\u1433"
)
_MEANT = "<<<<<<<<<////_aaacccdeehiiiijkkllmmnnooopprrsstttuuuvvwwxxyyyCCEEIIKKMMNOOPPRSTTUVAALD<>"
"""Signs and letters of other scripts, and what they look like. Forms of Latin ones are known to Unicode."""


@cache
def _look_alikes() -> _LookAlikes:
    return _LookAlikes(str.maketrans(_OTHERS, _MEANT))


def _look_alike(char: str) -> int:
    """The ASCII character that others are forms of: of full width, mathematical, with an accent. A bare accent is as
    good as hidden."""
    import unicodedata  # only for texts that are not ASCII

    plain = unicodedata.normalize("NFKD", char)[0]
    if plain < "\x80":
        return ord(plain)
    is_unseen = plain in "\u115f\u1160\u2800" or unicodedata.category(char) in ("Cf", "Mn")
    return 0x200B if is_unseen else ord(char)
