"""What a program that embeds the engine is asked, and what it may answer. Pure: events in, ops out.

`people` calls the program's functions; this module says what they are given and what their answers mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from spindle.api.shown import Change, Shown
from spindle.protocol.events import ApplyPatchApprovalRequest, ExecApprovalRequest, Msg
from spindle.protocol.items import encode_payload
from spindle.protocol.ops import ExecApproval, Op, PatchApproval, ResolveElicitation, UserInputAnswer
from spindle.protocol.questions import RequestUserInput
from spindle.protocol.quote import visible
from spindle.protocol.tool_servers import ElicitationRequest

Word = Literal["approved", "approved_for_session", "denied", "abort"]

_WORDS: dict[str, Word] = {
    "approved": "approved",
    "accept": "approved",
    "approved_for_session": "approved_for_session",
    "acceptForSession": "approved_for_session",
    "denied": "denied",
    "decline": "denied",
    "abort": "abort",
    "cancel": "abort",
}
_FOR_SERVERS: dict[Word, str] = {"approved": "accept", "denied": "decline", "abort": "cancel"}
"""The answers to a question of an MCP server."""


class Denied(msgspec.Struct, frozen=True):
    """A no of `on_approval` with a reason that the model reads."""

    reason: str = ""


class ApprovalRequest(Shown, frozen=True, kw_only=True):
    """What `on_approval` is asked. Fields that do not belong to its kind are None."""

    kind: Literal["command", "patch", "tool", "mcp"]
    """A command, a patch, a Python function, or an MCP server: a tool of one, or a question that one asks."""
    display: str
    """What it is about, in a line for people; hidden characters are made visible."""
    command: list[str] | None = None
    """The exact argument list."""
    cwd: str
    changes: list[Change] | None = None
    """What the patch does to files."""
    server: str | None = None
    """The MCP server."""
    tool: str | None = None
    """The name of the function, or of the server's tool; None when the server itself asks something."""
    arguments: dict[str, Any] | None = None
    reason: str | None = None
    """Why somebody is asked at all."""
    if_approved: str = ""
    """What a yes allows, in a sentence."""
    call_id: str
    turn_id: str
    thread_id: str
    """The thread that asks: a sub-agent's, if one does."""
    decisions: list[Word]
    """The answers that make sense here."""


class QuestionOption(Shown, frozen=True, kw_only=True):
    """One of the answers that the model proposes."""

    label: str
    description: str = ""


class Question(Shown, frozen=True, kw_only=True):
    """One question to `on_question`. The answer is a label, a text of one's own, or a list of them."""

    id: str
    header: str = ""
    question: str
    options: list[QuestionOption] = []
    """Empty when any text will do."""
    is_secret: bool = False
    """The answer should not be shown while it is typed."""


class Decision(msgspec.Struct, frozen=True):
    """An answer of `on_approval` that was understood."""

    word: Word
    reason: str = ""


def read_decision(answer: Any) -> Decision:
    """What `on_approval` said. Raises TypeError or ValueError with a sentence for whoever wrote it."""
    if isinstance(answer, Denied):
        return Decision("denied", answer.reason)
    if answer is None or isinstance(answer, bool):
        return Decision("approved" if answer else "denied")
    if not isinstance(answer, str):
        raise TypeError(f"on_approval returned {_short(answer)}; it returns True, False, None, a word or Denied('why')")
    if answer not in _WORDS:
        raise ValueError(f"on_approval returned {_short(answer)}; the words are {', '.join(_WORDS)}")
    return Decision(_WORDS[answer])


# ---- approvals -------------------------------------------------------------------------------------


def approval_request(msg: Msg, *, thread_id: str, cwd: str) -> ApprovalRequest | None:
    """The question as `on_approval` gets it; None for a message that asks for no approval."""
    match msg:
        case ExecApprovalRequest():
            return ApprovalRequest(
                kind="command",
                display=msg.display,
                command=list(msg.command),
                cwd=msg.cwd,
                reason=msg.reason,
                if_approved=msg.if_approved,
                call_id=msg.call_id,
                turn_id=msg.turn_id,
                thread_id=msg.thread_id or thread_id,
                decisions=_possible(msg.available_decisions),
            )
        case ApplyPatchApprovalRequest():
            return ApprovalRequest(
                kind="patch",
                display="patch " + ", ".join(visible(path) for path in msg.changes),
                cwd=cwd,
                changes=[_change(path, change) for path, change in msg.changes.items()],
                reason=msg.reason,
                if_approved="the files are written",
                call_id=msg.call_id,
                turn_id=msg.turn_id,
                thread_id=msg.thread_id or thread_id,
                decisions=_possible(msg.available_decisions),
            )
        case ElicitationRequest():
            return _of_server(msg, thread_id, cwd)
        case _:
            return None


def _of_server(msg: ElicitationRequest, thread_id: str, cwd: str) -> ApprovalRequest:
    """About a tool; one of no server is a Python function."""
    about = msg.invocation or {}
    tool, arguments = about.get("tool"), about.get("arguments")
    is_function = msg.kind == "tool_approval" and not msg.server_name
    display = msg.message
    if is_function and msg.permissions is None:
        display = visible(f"{tool}({encode_payload(arguments).decode()})")
    return ApprovalRequest(
        kind="tool" if is_function else "mcp",
        display=display,
        cwd=cwd,
        server=msg.server_name or None,
        tool=tool if isinstance(tool, str) else None,
        arguments=arguments if isinstance(arguments, dict) else None,
        reason=None if is_function else msg.message,
        if_approved=msg.if_approved,
        # Two sub-agents may use the same call id, and what a server asks by itself is about no call.
        call_id=(msg.call_id if msg.thread_id is None else None) or msg.id,
        turn_id=msg.turn_id,
        thread_id=msg.thread_id or thread_id,
        decisions=_possible(msg.available_decisions),
    )


def approval_op(msg: Msg, decision: Decision) -> Op:
    """The op that passes the answer on."""
    word: str = decision.word
    if isinstance(msg, ElicitationRequest) and msg.kind != "tool_approval":
        # A server is told yes, no, or that nobody wants to say: it has no use for more.
        word = _FOR_SERVERS.get(decision.word, "accept")
        return ResolveElicitation(server_name=msg.server_name, request_id=msg.id, decision=word)
    answer: Any = {word: {"reason": decision.reason}} if decision.reason else word
    match msg:
        case ElicitationRequest():
            return ResolveElicitation(server_name=msg.server_name, request_id=msg.id, decision=answer)
        case ApplyPatchApprovalRequest(call_id=call_id):
            return PatchApproval(id=call_id, decision=answer)
        case ExecApprovalRequest(call_id=call_id):
            return ExecApproval(id=call_id, decision=answer)
        case _:
            raise TypeError(f"{type(msg).__name__} asks for no approval")


def _possible(offered: list[Any]) -> list[Word]:
    """Of our words, those that are offered; a server's question has words of its own."""
    words: list[Word] = [_WORDS[word] for word in offered if isinstance(word, str) and word in _WORDS]
    found: list[Word] = list(dict.fromkeys(words))
    return found or ["approved", "denied", "abort"]


def _change(path: str, change: Mapping[str, Any]) -> Change:
    kind: Any = change.get("type")
    move_path = change.get("move_path")
    return Change(path=path, kind=kind, diff=change.get("unified_diff", change.get("content")), move_path=move_path)


# ---- questions -------------------------------------------------------------------------------------


def questions_of(msg: RequestUserInput) -> list[Question]:
    """The model's questions as `on_question` gets them."""
    return [
        Question(
            id=asked["id"],
            header=asked.get("header") or "",
            question=asked["question"],
            options=[
                QuestionOption(label=option["label"], description=option.get("description") or "")
                for option in asked.get("options") or ()
            ],
            is_secret=bool(asked.get("isSecret")),
        )
        for asked in msg.questions
    ]


def answer_op(msg: RequestUserInput, answers: dict[str, list[str]] | None) -> Op:
    """The op that passes the answers on; None when there is nobody to answer."""
    if answers is None:
        return UserInputAnswer(id=msg.call_id, response={})
    said = {question: {"answers": words} for question, words in answers.items()}
    return UserInputAnswer(id=msg.call_id, response={"answers": said})


def read_answers(given: Any, questions: list[Question]) -> dict[str, list[str]]:
    """What `on_question` said, by question. Raises TypeError or ValueError with a sentence for whoever wrote it."""
    if not isinstance(given, Mapping):
        raise TypeError(f"on_question returned {_short(given)}; it returns a dict of answers by the id of the question")
    asked = [question.id for question in questions]
    answers: dict[str, list[str]] = {}
    for name, answer in given.items():
        if name not in asked:
            raise ValueError(f"on_question answered {_short(name)}; the questions were {', '.join(map(repr, asked))}")
        words = [answer] if isinstance(answer, str) else answer
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise TypeError(
                f"on_question answered {name!r} with {_short(answer)}; an answer is a text or a list of them"
            )
        answers[name] = list(words)
    return answers


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"
