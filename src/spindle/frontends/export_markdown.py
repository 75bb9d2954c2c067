"""An exported thread as Markdown. What others wrote cannot leave its block: it is quoted, fenced, or closed."""

from __future__ import annotations

import re

from spindle.frontends.app_server.objects import Thread, Turn
from spindle.frontends.export_parts import Block, blocks_of, facts_of, title_of, turn_title
from spindle.frontends.plain_text import printable

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")
_LANGUAGES = {"console": "console", "diff": "diff", "text": "text"}


def document(thread: Thread, turns: list[Turn]) -> str:
    parts = [
        f"# {_plain(title_of(thread))}",
        "\n".join(f"- {name}: {_code(value)}" for name, value in facts_of(thread)),
    ]
    for number, turn in enumerate(turns, 1):
        parts.append(f"## {turn_title(number, turn)}")
        parts += [_block(block) for block in blocks_of(turn)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    heading = f"**{_plain(block.heading)}**"
    text = printable(block.text)
    match block.kind:
        case "note":
            return f"*{_plain(block.heading)}*"
        case "prompt" | "aside":
            return f"{heading}\n\n" + "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
        case "answer":
            return f"{heading}\n\n{_closed(text)}"
        case "console" | "diff" | "text":
            return heading if not text else f"{heading}\n\n{_fenced(text, _LANGUAGES[block.kind])}"


def _fenced(text: str, language: str) -> str:
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _closed(text: str) -> str:
    """An answer is Markdown itself; a fence that it leaves open would swallow what follows."""
    is_open = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        fence, rest = found[1], found[2]
        if not is_open:
            if fence[0] == "~" or "`" not in rest:
                is_open = fence
        elif fence.startswith(is_open) and not rest.strip():
            is_open = ""
    return f"{text}\n{is_open}" if is_open else text


def _plain(text: str) -> str:
    """Text in which nothing is Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def _code(text: str) -> str:
    ticks = "`" * (_longest_run(text) + 1)
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{edge}{text}{edge}{ticks}"
