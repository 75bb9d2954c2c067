"""A thread as a document for people: Markdown, or one page of HTML that runs and loads nothing."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from spindle.api.markup import Markup, join, tag
from spindle.protocol.quote import readable, without_terminal_codes

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = Markup("""
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1rem; margin: 1.5rem 0 .2rem; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
.prose { font: inherit; }
.console, .diff, .text { font: 13px/1.45 ui-monospace, monospace; padding: .6rem .8rem; border-radius: 6px; }
.console, .diff, .text { background: color-mix(in srgb, CanvasText 7%, Canvas); }
.add { color: light-dark(#116329, #7ee787); }
.del { color: light-dark(#82071e, #ffa198); }
""")


class Block(msgspec.Struct, frozen=True):
    """A heading of ours, and below it what others wrote."""

    kind: Literal["prose", "console", "diff", "text", "note"]
    """Prose may be Markdown; a command with its output, a diff and other text are shown as they stand; a note is a
    sentence of ours that has nothing below it."""
    heading: str
    text: str = ""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    facts: list[tuple[str, str]]
    """Names and values; empty values are left out."""
    blocks: list[Block]


# ---- Markdown --------------------------------------------------------------------------------------


def markdown(document: Document) -> str:
    facts = [f"- {name}: {_code(_clean(value))}" for name, value in document.facts if value]
    parts = [f"# {_plain(_clean(document.title))}", "\n".join(facts)]
    for block in document.blocks:
        parts += _markdown_parts(block)
    return "\n\n".join(parts) + "\n"


def _markdown_parts(block: Block) -> list[str]:
    heading, text = _plain(_clean(block.heading)), _clean(block.text)
    if block.kind == "note":
        return [f"*{heading}*"]
    if block.kind == "prose":
        return [f"## {heading}", _closed(text)]
    return [f"## {heading}", _fenced(text, block.kind)] if text else [f"## {heading}"]


def _fenced(text: str, language: str) -> str:
    """A block that nothing in the text can end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def _closed(text: str) -> str:
    """Prose is Markdown itself; a fence that it leaves open would swallow what follows."""
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
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    ticks = "`" * (_longest_run(text) + 1)
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{edge}{' '.join(text.split())}{edge}{ticks}"


def _clean(text: str) -> str:
    return readable(without_terminal_codes(text))


# ---- HTML ------------------------------------------------------------------------------------------


def page(document: Document) -> str:
    facts = [tag("li", f"{name}: {value}") for name, value in document.facts if value]
    body = [tag("h1", document.title), tag("ul", *facts), *map(_html_block, document.blocks)]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", document.title),
        tag("style", _STYLE),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def _html_block(block: Block) -> Markup:
    if block.kind == "note":
        return tag("p", tag("em", block.heading))
    # A line end right behind <pre> is no part of the text.
    text = tag("pre", "\n", _html_text(block), class_=block.kind) if block.text else None
    return join(tag("h2", block.heading), text)


def _html_text(block: Block) -> str:
    if block.kind != "diff":
        return block.text
    return join(*map(_diff_line, block.text.splitlines(keepends=True)))


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del"}.get(line[:1])
    return line if kind is None else tag("span", line, class_=kind)
