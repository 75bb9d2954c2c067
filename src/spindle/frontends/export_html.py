"""An exported thread as one page: no script, nothing from a network, and a policy in it that forbids both."""

from __future__ import annotations

from spindle.api.markup import Markup, join, tag
from spindle.frontends.app_server.objects import Thread, Turn
from spindle.frontends.export_parts import Block, blocks_of, facts_of, title_of, turn_title

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = Markup("""
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dd { margin: 0; overflow-wrap: anywhere; }
h2 { border-top: 1px solid GrayText; margin-top: 2.5rem; padding-top: .5rem; }
h3 { font-size: .9rem; margin: 1.2rem 0 .2rem; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; padding: .6rem .8rem; border-radius: 6px; }
.prompt, .answer, .aside { font: inherit; }
.prompt { background: color-mix(in srgb, Highlight 18%, Canvas); }
.aside, .note { color: GrayText; font-style: italic; }
.console, .diff, .text { font: 13px/1.45 ui-monospace, monospace; }
.console, .diff, .text { background: color-mix(in srgb, CanvasText 7%, Canvas); }
.add { color: light-dark(#116329, #7ee787); }
.del { color: light-dark(#82071e, #ffa198); }
""")


def page(thread: Thread, turns: list[Turn]) -> str:
    title = title_of(thread)
    facts = [part for name, value in facts_of(thread) for part in (tag("dt", name), tag("dd", value))]
    body = [tag("h1", title), tag("dl", *facts)]
    for number, turn in enumerate(turns, 1):
        body.append(tag("h2", turn_title(number, turn)))
        body += [_block(block) for block in blocks_of(turn)]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width"),
        tag("title", title),
        tag("style", _STYLE),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def _block(block: Block) -> Markup:
    if block.kind == "note":
        return tag("p", block.heading, class_="note")
    # A line end right behind <pre> would be left out.
    text = tag("pre", "\n", _lines(block), class_=block.kind) if block.text else None
    return join(tag("h3", block.heading), text)


def _lines(block: Block) -> str:
    if block.kind != "diff":
        return block.text
    return join(*(_diff_line(line) for line in block.text.splitlines(keepends=True)))


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del"}.get(line[:1])
    return line if kind is None else tag("span", line, class_=kind)
