"""What a person is shown before they say yes: all of it, exactly, and what each answer would cover. Pure.

`about` makes a `Matter` of a request, whatever it is for; `approval.py` puts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from spindle.frontends.fit import counted
from spindle.frontends.tui.shown import BLANK, Line, Span
from spindle.frontends.tui.text.clean import has_hidden, mixed_scripts
from spindle.frontends.tui.views.reveal import revealed
from spindle.frontends.tui.views.rows import exact, prose
from spindle.protocol.events import ApplyPatchApprovalRequest, ExecApprovalRequest
from spindle.protocol.items import encode_payload
from spindle.protocol.ops import ExecApproval, Op, PatchApproval, ResolveElicitation
from spindle.protocol.quote import shell_join
from spindle.protocol.tool_servers import ElicitationRequest

Request = ExecApprovalRequest | ApplyPatchApprovalRequest | ElicitationRequest
AMENDMENT = "approved_execpolicy_amendment"
SHELLS = ("bash", "zsh", "sh", "dash", "ksh", "fish")
_DOUBT = "; found where the agent can write: "
INDENT = "  "


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer that the session takes."""

    decision: Any
    key: str
    name: str
    covers: tuple[Span, ...] = ()
    """What beyond this once it allows."""

    @property
    def word(self) -> str:
        return next(iter(self.decision)) if isinstance(self.decision, dict) else str(self.decision)

    @property
    def is_yes(self) -> bool:
        return self.word.startswith("approved")


class Matter(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be decided on."""

    question: str
    subject: Callable[[int], list[Line]]
    """What it is about, nothing cut, in rows of the given width."""
    facts: Sequence[tuple[str, str]]
    """What else to know, each with a short name."""
    warnings: Sequence[str]
    offers: Sequence[Offer]
    title: str
    """In one line, for the record of answers."""
    command: str = ""
    """What could be edited and run as the person's own command."""
    answer: Callable[[Any], Op]
    """The op for a decision."""


def about(msg: Request, *, cwd: str = "", agent: str = "") -> Matter:
    """The matter of a request. `cwd` is the thread's folder, `agent` the sub-agent that asks, if one does."""
    match msg:
        case ExecApprovalRequest():
            return _command(msg, cwd, agent)
        case ApplyPatchApprovalRequest():
            return _patch(msg, agent)
        case ElicitationRequest():
            return _tool(msg, agent)


# ---- commands --------------------------------------------------------------------------------------


def script_of(argv: Sequence[str]) -> tuple[str, str]:
    """What a person would type for it, and the shell it is given to, where it is one's script."""
    name = argv[0].rpartition("/")[2] if argv else ""
    if len(argv) == 3 and name in SHELLS and argv[1] in ("-c", "-lc"):
        return argv[2], f"{argv[0]} {argv[1]}"
    return shell_join(argv), ""


def _command(msg: ExecApprovalRequest, cwd: str, agent: str) -> Matter:
    from spindle.policy.danger import is_dangerous  # loaded with the policy, when a first command wants permission

    script, shell = script_of(msg.command)
    if_yes, _, planted = msg.if_approved.partition(_DOUBT)
    said = msg.justification
    reason = (msg.reason or "").removesuffix(f"; the model says: {said}") if said else msg.reason or ""
    facts = [
        ("folder", f"{msg.cwd} (not the folder of this thread)" if cwd and msg.cwd != cwd else ""),
        ("shell", shell if shell not in _USUAL_SHELLS else ""),
        ("because", "" if reason == said else reason),
        ("the model says", f"“{said}”" if said else ""),
        ("if yes", if_yes),
    ]
    warnings = _warnings(script, msg.cwd)
    if is_dangerous(msg.command):
        warnings.append("this can destroy work that cannot be brought back")
    if planted:
        warnings.append(f"found where the agent can write, so it may not be what its name says: {planted}")
    return Matter(
        question=_asked("Run this command?", agent),
        subject=lambda width: _exact_lines(script, width),
        facts=[fact for fact in facts if fact[1]],
        warnings=warnings,
        offers=_offers(msg),
        title=script,
        command=script,
        answer=lambda decision: ExecApproval(id=msg.call_id, decision=decision),
    )


_USUAL_SHELLS = ("bash -lc", "/bin/bash -lc", "/usr/bin/bash -lc", "bash -c", "/bin/bash -c", "/usr/bin/bash -c")


def _exact_lines(text: str, width: int) -> list[Line]:
    return [row for spans in revealed(text) for row in exact(spans, width, INDENT)]


def _warnings(*shown: str) -> list[str]:
    made: list[str] = []
    if any(map(has_hidden, shown)):
        made.append("it holds characters that do not show as themselves; they stand in reverse video")
    if words := [word for text in shown for word in mixed_scripts(text)]:
        made.append(f"letters of different alphabets in one word: {', '.join(words[:5])}")
    return made


# ---- patches ---------------------------------------------------------------------------------------

_VERBS = {"add": "Add", "delete": "Delete", "update": "Edit"}


def _patch(msg: ApplyPatchApprovalRequest, agent: str) -> Matter:
    paths = [path for path, change in msg.changes.items()]
    targets = [path for path, change in msg.changes.items() for path in (path, change.get("move_path")) if path]
    bodies = [_body(change) for change in msg.changes.values()]
    facts = [
        ("because", msg.reason or ""),
        ("if yes", f"{counted(len(targets), 'file')} written: " + ", ".join(targets)),
    ]
    return Matter(
        question=_asked("Apply these edits?", agent),
        subject=lambda width: _patch_lines(msg.changes, width),
        facts=[fact for fact in facts if fact[1]],
        warnings=_warnings(*targets, *bodies),
        offers=_offers(msg),
        title=f"edits of {', '.join(paths)}",
        answer=lambda decision: PatchApproval(id=msg.call_id, decision=decision),
    )


def _body(change: dict[str, Any]) -> str:
    return str(change.get("unified_diff") or change.get("content") or "")


def _patch_lines(changes: dict[str, Any], width: int) -> list[Line]:
    made: list[Line] = []
    for path, change in changes.items():
        rows = list(_changed(change))
        added, removed = (sum(sign == row[:1] for row in rows) for sign in "+-")
        to = f" → {change['move_path']}" if change.get("move_path") else ""
        verb = "Rename" if to else _VERBS.get(str(change.get("type")), "Change")
        head = (Span(f"{verb} ", "bold"), *(span for spans in revealed(f"{path}{to}") for span in spans))
        if made:
            made.append(BLANK)
        made += exact((*head, Span(f"  +{added} -{removed}", "dim")), width, INDENT)
        for row in rows:
            style = {"+": "added", "-": "removed", "@": "hunk"}.get(row[:1], "")
            # A tab is what it looks like here: code is indented with it.
            for spans in revealed(row.replace("\t", "    ")):
                styled = [span if span.style else Span(span.text, style) for span in spans]
                made += exact(styled, width, INDENT)
    return made


def _changed(change: dict[str, Any]) -> Iterable[str]:
    """The lines of one file's change, each with its sign."""
    kind, body = change.get("type"), _body(change)
    lines = body.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if kind == "update":
        return lines
    sign = "-" if kind == "delete" else "+"
    return [sign + each for each in lines]


# ---- tools -----------------------------------------------------------------------------------------


def _tool(msg: ElicitationRequest, agent: str) -> Matter:
    invocation = msg.invocation or {}
    server, tool = str(invocation.get("server") or ""), str(invocation.get("tool") or "")
    arguments = invocation.get("arguments")
    shown = _arguments(arguments)
    of = f" of the MCP server {server}" if server else ""
    return Matter(
        question=_asked(_tool_question(msg, server), agent),
        subject=lambda width: [
            *([*exact((Span("server  ", "dim"), *_one(server)), width, INDENT)] if server else []),
            *exact((Span("tool    ", "dim"), *_one(tool)), width, INDENT),
            *(_exact_lines(shown, width) if shown else prose([Span("  no arguments", "dim")], width)),
        ],
        facts=[("if yes", msg.if_approved)] if msg.if_approved else [],
        warnings=_warnings(server, tool, shown),
        offers=_offers(msg),
        title=f"tool {tool}{of}",
        answer=lambda decision: ResolveElicitation(
            server_name=msg.server_name, request_id=msg.id, decision=decision, content=None
        ),
    )


def _tool_question(msg: ElicitationRequest, server: str) -> str:
    if msg.permissions is not None:
        return "Let commands reach more than the sandbox allows?"
    return "Use this MCP tool?" if server else "Use this tool?"


def _arguments(arguments: Any) -> str:
    """JSON, a line for each argument; the texts in it as they are, where they are plain."""
    if not isinstance(arguments, dict):
        return "" if arguments is None else encode_payload(arguments).decode()
    return "\n".join(f"{_argument(name)} = {encode_payload(value).decode()}" for name, value in arguments.items())


def _argument(name: str) -> str:
    """The name of an argument; in quotes where it could be taken for something else, such as for further lines."""
    return name if name.isidentifier() and name.isascii() else encode_payload(name).decode()


def _one(text: str) -> tuple[Span, ...]:
    return tuple(span for spans in revealed(text.replace("\n", "\\n")) for span in spans)


# ---- what may be answered --------------------------------------------------------------------------


def _asked(question: str, agent: str) -> str:
    return f"{question} (asked by the sub-agent {agent})" if agent else question


def _offers(msg: Request) -> list[Offer]:
    """The answers that the session takes, in the order it names them; yes and no where it names none."""
    granted = {_word(offer["decision"]): offer.get("grants") or [] for offer in msg.offers if "decision" in offer}
    decisions = msg.available_decisions or ["approved", "denied", "abort"]
    made = [_offer(decision, granted.get(_word(decision), [])) for decision in decisions]
    return [offer for offer in made if offer is not None]


def _word(decision: Any) -> str:
    return next(iter(decision), "") if isinstance(decision, dict) else str(decision)


def _offer(decision: Any, grants: list[dict[str, Any]]) -> Offer | None:
    match _word(decision):
        case "approved":
            return Offer(decision=decision, key="y", name="Yes, once")
        case "approved_for_session":
            return Offer(decision=decision, key="a", name="Yes, for this session", covers=(Span(_coverage(grants)),))
        case word if word == AMENDMENT:
            prefix = decision[word].get("proposed_execpolicy_amendment") or []
            covers = (Span("commands that begin with `"), *_one(shell_join(prefix)), Span("`, outside the sandbox"))
            return Offer(decision=decision, key="p", name="Yes, always", covers=covers)
        case "denied":
            return Offer(decision=decision, key="d", name="No, go on without it")
        case "abort":
            return Offer(decision=decision, key="n", name="No, stop here; I will say what to do instead")
        case _:
            return None


def _coverage(grants: list[dict[str, Any]]) -> str:
    """What a yes for the session would cover, in few words; the matter itself is shown above."""
    scopes = [grant.get("scope") or {} for grant in grants]
    kinds = {scope.get("type") for scope in scopes}
    if kinds == {"file"}:
        return "this file" if len(scopes) == 1 else f"these {len(scopes)} files"
    if kinds == {"tool"}:
        return "this tool, whatever its arguments"
    if kinds == {"command"}:
        inside = all(grant.get("effect") == "run_in_sandbox" for grant in grants)
        return f"this very command in this folder, {'in' if inside else 'outside'} the sandbox"
    return "the same thing again"
