"""The words the text and the page share."""

from __future__ import annotations

from typing import Any

from spindle.frontends.when import local_time, zone_of
from spindle.lookback.report import Break, ContextReport, Deed, RequestReport, TurnReport
from spindle.protocol.items import OUTPUT_TYPES, Item, encode_json, item_text

_CAUSES = {
    "first_request": "first request",
    "provider_changed": "another provider",
    "model_changed": "another model",
    "tools_changed": "other tools",
    "instructions_changed": "other instructions",
    "settings_changed": "other settings",
    "compaction": "compaction",
    "context_edit": "context edit",
    "rollback": "rollback",
    "resume": "resumed",
    "fork": "forked",
    "picture_removed": "picture removed",
    "undeclared": "prefix changed, undeclared",
    "provider_miss": "missed by the provider",
    "cache_timeout": "cache timed out",
}
_KINDS = {
    "compaction": "compaction",
    "edit": "context edit",
    "rollback": "rollback",
    "branch": "another thread's state",
    "picture_removed": "picture removed",
}


_TOOLS = {
    "update_plan": "updated the plan",
    "view_image": "looked at the picture",
    "read_file": "read",
    "list_dir": "listed",
    "grep_files": "searched for",
    "write_stdin": "went on with a running command",
    "request_user_input": "asked the user",
    "remember": "noted a fact",
    "recall": "searched its record for",
    "spawn_agent": "started a sub-agent",
}
_ENDS = {"failed": "ended without an answer", "interrupted": "interrupted", "": "not over when the record ends"}
UNKNOWN = "unknown"


def title_of(report: ContextReport, name: str | None) -> str:
    """What a person calls the thread: its name, else what it was asked first."""
    if name:
        return name
    prompt = report.turns[0].prompt if report.turns else ""
    return one_line(prompt, 110) or "A thread without a prompt"


def one_line(text: str, room: int) -> str:
    """The beginning of a text, on one line."""
    words = " ".join(text.split())
    return words if len(words) <= room else words[: room - 1].rstrip() + "…"


def turn_words(turn: TurnReport, room: int) -> str:
    """A heading for the requests of a turn."""
    end = _ENDS.get(turn.end)
    said = f"turn {turn.number} · {local_time(turn.at)}" if turn.at else f"turn {turn.number}"
    said += f" · {end}" if end else ""
    prompt = one_line(turn.prompt, max(20, room - len(said) - 3))
    return f"{said} · {prompt}" if prompt else said


def deeds_words(request: RequestReport) -> str:
    """What the answer did, in the words of a diary."""
    is_last_word = all(deed.kind == "message" for deed in request.deeds)
    return "; ".join(_deed_words(deed, is_last_word) for deed in request.deeds) or "nothing that is recorded"


def _deed_words(deed: Deed, is_last_word: bool) -> str:
    about = " ".join(deed.text.split())
    match deed.kind:
        case "message":
            return f"{'answered' if is_last_word else 'said'}: “{about}”"
        case "command":
            how = f" (exit {deed.exit_code})" if deed.exit_code else " (no result)" if deed.is_done is None else ""
            return f"ran {about}{how}"
        case "patch":
            return f"{'changed' if deed.is_done else 'failed to change'} {about}"
        case "search":
            return f"searched the web{f' for {about}' if about else ''}"
        case _:
            did = _TOOLS.get(deed.tool) or f"called {deed.tool or 'a tool without a name'}"
            return f"{did} {about}".rstrip()


def money(dollars: float | None) -> str:
    """An amount with as many digits as it has meaning; `unknown` is not nothing."""
    if dollars is None:
        return UNKNOWN
    return f"${dollars:,.{2 if dollars >= 1 else 3 if dollars >= 0.01 else 4}f}"


def cost_words(report: ContextReport) -> str:
    """What the thread cost, and what of it is not known."""
    totals = report.totals
    if totals.cost_usd is None:
        return f"{UNKNOWN}: no price is known for the model"
    said = money(totals.cost_usd)
    if totals.unpriced_requests:
        said += f" and more: {counted(totals.unpriced_requests, 'request')} without a known price"
    if totals.side_tokens:
        about = "an unknown sum" if totals.side_cost_usd is None else f"about {money(totals.side_cost_usd)}"
        said += f", plus {about} for summaries and sub-agents"
    return said


def zone_words(report: ContextReport) -> str:
    """The zone, or zones, in which the times of a report are shown."""
    return "/".join(dict.fromkeys(zone for request in report.requests if (zone := zone_of(request.at))))


def cause_words(cause: str) -> str:
    return _CAUSES.get(cause, cause.replace("_", " "))


def source_words(source: str) -> str:
    return "AGENTS.md" if source == "agents_md" else source


def note_on(request: RequestReport) -> str:
    """Why a request cost more than it had to; empty if it did not."""
    cache = request.cache
    if cache.cause is None:
        return ""
    lost = f", {cache.lost_tokens:,} tokens lost" if cache.lost_tokens else ""
    return f"{cause_words(cache.cause)}{lost}{' (a bug: please report it)' if cache.is_alarm else ''}"


def break_words(broken: Break) -> str:
    tokens = f"{broken.tokens_before:,} → {broken.tokens_after:,} tokens"
    items = f"{broken.items_before} → {broken.items_after} items"
    said = f"{broken.message}; " if broken.message else ""
    why = broken.decision.get("explanation") if broken.decision else None
    return f"{_KINDS[broken.kind]}: {said}{tokens}, {items}{f' ({why})' if isinstance(why, str) else ''}"


def summary_words(report: ContextReport) -> list[str]:
    """What the thread was, what it did, and what it cost."""
    totals = report.totals
    work = [counted(totals.turns, "turn"), counted(totals.requests, "request")]
    work.append(f"{counted(totals.commands, 'command')} run")
    work.append(_plural(totals.files_changed, "file changed by patches"))
    work += [counted(totals.compactions, "compaction")] if totals.compactions else []
    work += [counted(totals.edits, "context edit")] if totals.edits else []
    tokens = [
        f"{totals.input_tokens:,} tokens in, {totals.hit_percent} % of them from the cache",
        f"{totals.output_tokens:,} out",
    ]
    if totals.side_tokens:
        tokens.append(f"{totals.side_tokens:,} more for summaries and sub-agents")
    return [" · ".join(work), " · ".join(tokens), f"cost {cost_words(report)}"]


def ledger_words(report: ContextReport) -> str:
    """What the work ledger holds, counted. Each command stands in it once, however often it was run."""
    names = (
        ("requests", "prompt"),
        ("plan", "plan step"),
        ("reads", "file read"),
        ("changes", "file changed"),
        ("commands", "different command"),
        ("approvals", "approval"),
        ("questions", "open question"),
    )
    found = [(len(report.ledger[name]), word) for name, word in names if report.ledger[name]]
    return ", ".join(_plural(count, word) for count, word in found)


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _plural(count: int, word: str) -> str:
    if word.startswith("file ") and count != 1:
        return f"{count:,} files {word[5:]}"
    return counted(count, word)


def shown_text(item: Item) -> str:
    """What an item says, for people: its text where it has one, else its JSON."""
    match item:
        case {"type": "message"}:
            said = item_text(item)
            pictures = _pictures(item.get("content"))
            return f"{said}\n{pictures}".strip("\n") if pictures else said
        case {"type": "reasoning", "summary": list(parts)}:
            said = "\n\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
            hidden = item.get("encrypted_content")
            return said or (f"[encrypted: {len(hidden):,} characters]" if isinstance(hidden, str) else "[empty]")
        case {"type": "function_call", "arguments": str(arguments)}:
            return arguments
        case {"type": "custom_tool_call", "input": str(given)}:
            return given
        case {"type": "compaction"}:
            return f"[encrypted by the server: {len(str(item.get('encrypted_content') or '')):,} characters]"
        case {"output": str(output)} if item.get("type") in OUTPUT_TYPES:
            return output
        case {"output": list(parts)} if item.get("type") in OUTPUT_TYPES:
            return f"{item_text({'content': parts})}\n{_pictures(parts)}".strip("\n")
        case _:
            return encode_json(item).decode()


def _pictures(parts: Any) -> str:
    found = [part for part in parts if isinstance(part, dict) and part.get("type") == "input_image"] if parts else []
    return f"[{counted(len(found), 'picture')}]" if found else ""
