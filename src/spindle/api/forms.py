"""Forms that MCP servers want filled in, put as questions. Loaded with the first one."""

from __future__ import annotations

from typing import Any

from spindle.api.requests import Question, QuestionOption
from spindle.protocol.ops import Op, ResolveElicitation
from spindle.protocol.tool_servers import ElicitationRequest

_YES = frozenset(("true", "yes", "y", "1", "on"))
_NO = frozenset(("false", "no", "n", "0", "off"))


def form_questions(msg: ElicitationRequest) -> list[Question]:
    """One question for each field; none when the server only wants a yes."""
    return [
        Question(
            id=name,
            header=msg.message,
            question=_text(field, "description") or _text(field, "title") or name,
            options=[QuestionOption(label=label) for label in _choices(field)],
            is_secret=field.get("format") == "password",
        )
        for name, field in _fields(msg).items()
    ]


def form_op(msg: ElicitationRequest, answers: dict[str, list[str]]) -> Op:
    """The filled-in form; without an answer to what the server needs, it is declined. Raises ValueError."""
    schema = msg.requested_schema or {}
    required = schema.get("required")
    missing = [name for name in required if name not in answers] if isinstance(required, list) else []
    if not answers or missing:
        return ResolveElicitation(server_name=msg.server_name, request_id=msg.id, decision="decline")
    fields = _fields(msg)
    content = {name: _value(name, fields[name], words) for name, words in answers.items()}
    return ResolveElicitation(server_name=msg.server_name, request_id=msg.id, decision="accept", content=content)


def _fields(msg: ElicitationRequest) -> dict[str, dict[str, Any]]:
    properties = (msg.requested_schema or {}).get("properties")
    found = properties if isinstance(properties, dict) else {}
    return {name: field for name, field in found.items() if isinstance(name, str) and isinstance(field, dict)}


def _choices(field: dict[str, Any]) -> list[str]:
    if field.get("type") == "boolean":
        return ["yes", "no"]
    found = field.get("enum")
    return [choice for choice in found if isinstance(choice, str)] if isinstance(found, list) else []


def _text(field: dict[str, Any], key: str) -> str:
    found = field.get(key)
    return found if isinstance(found, str) else ""


def _value(name: str, field: dict[str, Any], words: list[str]) -> Any:
    kind = field.get("type")
    if kind == "array":
        return words
    text = ", ".join(words)
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        raise ValueError(f"on_question answered {name!r} with {text!r}, which is not a valid {kind}") from None
    if kind == "boolean":
        if text.lower() not in _YES | _NO:
            raise ValueError(f"on_question answered {name!r} with {text!r}, which is neither yes nor no")
        return text.lower() in _YES
    return text
