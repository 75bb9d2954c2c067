"""Which hooks a moment calls for, and what a hook's exit code and output mean. Nothing is run here.

What a hook says is taken for what it plainly means to forbid: a refusal counts also where the rest of its answer makes
no sense. What would loosen something counts only when it is spelt exactly right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import msgspec

from spindle.policy.reach import Reach
from spindle.protocol.hook_records import Hook, HookEntry
from spindle.protocol.items import decode_foreign

BLOCKS = 2
"""The exit code that says no."""
CANNOT_RUN = (126, 127)
"""What a shell answers when there is no such program, or it may not be executed."""
GUARDS = frozenset(("PreToolUse", "UserPromptSubmit", "PermissionRequest"))
"""Events whose hooks decide whether something may happen: one that cannot run has not said yes."""

_TELLS_IN_PLAIN_TEXT = frozenset(("UserPromptSubmit", "SessionStart", "SubagentStart"))
_ANSWERS_IN_JSON = frozenset(("Stop", "SubagentStop"))
_CAN_BLOCK = frozenset(("PreToolUse", "PostToolUse", "PermissionRequest", "UserPromptSubmit", "Stop", "SubagentStop"))
_CAN_STOP = frozenset(
    (
        *("PostToolUse", "UserPromptSubmit", "SessionStart", "SubagentStart", "Stop", "SubagentStop"),
        *("PreCompact", "PostCompact"),
    )
)
_NO_REASON = "the hook gave no reason"
_WORDS = re.compile(r"[A-Za-z0-9_-]+(\|[A-Za-z0-9_-]+)*")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one hook said."""

    status: Literal["completed", "failed", "blocked", "stopped"] = "completed"
    entries: tuple[HookEntry, ...] = ()
    blocked: str | None = None
    """Why what was about to happen must not, or why the model must go on."""
    stopped: str | None = None
    """Why everything must end here."""
    context: str | None = None
    """What the model is to know."""
    updated_input: dict[str, Any] | None = None
    allows: bool = False
    """It gives the permission that was asked for."""


@lru_cache
def _pattern(matcher: str) -> re.Pattern[str] | None:
    """None when it is not a regular expression."""
    try:
        return re.compile(f"(?:{matcher})\\Z" if _WORDS.fullmatch(matcher) else matcher)
    except (re.error, RecursionError, OverflowError):
        return None


def is_readable(matcher: str | None) -> bool:
    return not matcher or matcher == "*" or _pattern(matcher) is not None


def matches(hook: Hook, names: tuple[str, ...]) -> bool:
    """Is the hook for something that goes by one of these names? Plain words must be the whole name."""
    matcher = hook.matcher
    if not matcher or matcher == "*":
        return True
    pattern = _pattern(matcher)
    if pattern is None:
        return False
    look = pattern.match if _WORDS.fullmatch(matcher) else pattern.search
    return any(look(name[:256]) for name in names)


def is_in_reach(hook: Hook, reach: Reach, *, cwd: str, env: Mapping[str, str]) -> bool:
    """Could the model have rewritten what the hook runs? Then its yes is the model's own."""
    return hook.function is None and reach.script(hook.command, cwd=cwd, env=env) is not None


def cannot_run(event: str, why: str) -> Answer:
    """The answer of a hook that could not be asked, or did not answer in time."""
    entries = (HookEntry(kind="error", text=why),)
    if event in GUARDS:
        return Answer(status="blocked", entries=entries, blocked=f"a guard could not be asked: {why}")
    return Answer(status="failed", entries=entries)


def read_answer(event: str, exit_code: int, out: str, err: str) -> Answer:
    """What a hook's exit code and output mean."""
    if exit_code == BLOCKS:
        reason = err.strip() or _NO_REASON
        return _blocked(reason) if event in _CAN_BLOCK else failed(reason)
    if exit_code in CANNOT_RUN:
        return cannot_run(event, _last_line(err) or f"it ended with exit code {exit_code}")
    if exit_code != 0:
        return failed(f"exit code {exit_code}" + (f": {said}" if (said := _last_line(err)) else ""))
    text = out.strip()
    if not text:
        return Answer()
    if not text.startswith(("{", "[")):
        if event in _TELLS_IN_PLAIN_TEXT:
            return Answer(context=text, entries=(HookEntry(kind="context", text=text),))
        return failed("its answer is not JSON") if event in _ANSWERS_IN_JSON else Answer()
    try:
        value = decode_foreign(text.encode("utf-8", "replace"))
    except msgspec.DecodeError:
        value = None
    if not isinstance(value, dict):
        return failed("its answer is no JSON object")
    return _read_object(event, value)


def _read_object(event: str, value: dict[str, Any]) -> Answer:
    specific = value.get("hookSpecificOutput")
    specific = specific if isinstance(specific, dict) else {}
    entries: list[HookEntry] = []
    if message := _text(value, "systemMessage"):
        entries.append(HookEntry(kind="warning", text=message))
    context = _text(specific, "additionalContext")
    if context:
        entries.append(HookEntry(kind="context", text=context))
    refusal = _refusal(event, value, specific)
    if value.get("continue") is False and event in _CAN_STOP:
        # After a call the model goes on and reads the reason; elsewhere only people read why it does not.
        keys = ("reason", "stopReason") if event == "PostToolUse" else ("stopReason", "reason")
        reason = next((text for key in keys if (text := _text(value, key))), None) or refusal or _NO_REASON
        entries.append(HookEntry(kind="stop", text=reason))
        return Answer(status="stopped", entries=tuple(entries), stopped=reason, context=context or None)
    if refusal is not None:
        entries.append(HookEntry(kind="feedback", text=refusal))
        return Answer(status="blocked", entries=tuple(entries), blocked=refusal, context=context or None)
    answer = Answer(entries=tuple(entries), context=context or None)
    if "hookSpecificOutput" in value and specific.get("hookEventName") != event:
        return failed(f"hookSpecificOutput needs hookEventName = {event!r}", tuple(entries))
    if event == "PreToolUse" and (given := specific.get("updatedInput")) is not None:
        if specific.get("permissionDecision") != "allow" or not isinstance(given, dict):
            return failed("updatedInput must be an object, with permissionDecision = 'allow'", tuple(entries))
        return msgspec.structs.replace(answer, updated_input=given)
    if event == "PermissionRequest":
        return _permission(specific, answer)
    return answer


def _refusal(event: str, value: dict[str, Any], specific: dict[str, Any]) -> str | None:
    """The reason if the answer says no, in whichever of the ways there are."""
    reason = _text(value, "reason")
    if event in _CAN_BLOCK and value.get("decision") in ("block", "deny"):
        return reason or _text(specific, "permissionDecisionReason") or _NO_REASON
    if event == "PreToolUse" and (decision := specific.get("permissionDecision")) in ("deny", "ask"):
        why = _text(specific, "permissionDecisionReason") or reason or _NO_REASON
        return why if decision == "deny" else f"the hook wants a person to decide, which is not possible here: {why}"
    decision = specific.get("decision")
    if event == "PermissionRequest" and isinstance(decision, dict) and decision.get("behavior") == "deny":
        return _text(decision, "message") or reason or _NO_REASON
    return None


def _permission(specific: dict[str, Any], answer: Answer) -> Answer:
    decision = specific.get("decision")
    if decision is None:
        return answer
    if not isinstance(decision, dict) or decision.get("behavior") != "allow":
        return failed("decision.behavior must be 'allow' or 'deny'", answer.entries)
    if odd := sorted({"interrupt", "updatedInput", "updatedPermissions"} & {key for key in decision if decision[key]}):
        return failed(f"a permission cannot be given with {', '.join(odd)}", answer.entries)
    return msgspec.structs.replace(answer, allows=True)


def _blocked(reason: str) -> Answer:
    return Answer(status="blocked", blocked=reason, entries=(HookEntry(kind="feedback", text=reason),))


def failed(why: str, entries: tuple[HookEntry, ...] = ()) -> Answer:
    """The answer of a hook that went wrong: people are shown that, and things go on."""
    return Answer(status="failed", entries=(*entries, HookEntry(kind="error", text=why)))


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key)
    return found.strip() if isinstance(found, str) else ""


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[:500] if lines else ""
