"""The developer message that tells the model what it may reach and whom it may ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from spindle.prompt.bundled import text
from spindle.protocol.items import Item, developer_message, encode_json
from spindle.protocol.origin import defused_name
from spindle.protocol.quote import visible
from spindle.protocol.settings import Granular, PermissionProfile, SandboxPolicy

MAX_BYTES = 6 * 1024
MAX_PREFIXES = 100
MAX_RULE_CHARS = 2000
PROTECTED = (".git", ".codex", ".agents", ".vscode", ".envrc", ".husky")
"""What stays read-only below every writable root unless the user configured another list."""

_NARROW = "the workspace, the system's folders, language toolchains and their caches"
"""What can be read where that is not everything."""

_KINDS = {
    "sandbox_approval": "commands that want out of the sandbox or may destroy something, and patches outside of the "
    "writable folders. Do not set `sandbox_permissions`",
    "rules": "commands about which a rule wants the user to be asked",
    "request_permissions": "what the tool of that name asks for",
    "mcp_elicitations": "questions that MCP servers put to the user",
}
"""The kinds of question that there are, for a model."""

_OPEN, _CLOSE = "<permissions instructions>", "</permissions instructions>"


def permissions_message(
    sandbox: SandboxPolicy,
    approval_policy: str,
    roots: Sequence[str] = (),
    *,
    approved_prefixes: Iterable[Sequence[str]] = (),
    protected: Sequence[str] = PROTECTED,
    reads_everything: bool = True,
    granular: Granular | None = None,
) -> Item:
    """`roots` are the writable roots in order; they are named only where the sandbox has such."""
    approvals = text(f"approval_{approval_policy.replace('-', '_')}")
    if granular is not None:
        approvals = _granular_part(granular, approvals)
    fixed = [_sandbox_part(sandbox, protected, reads_everything), approvals]
    roots_part = _roots_part(roots) if sandbox.mode == "workspace-write" else ""
    if approval_policy == "on-request" and (granular is None or granular.sandbox_approval):
        room = MAX_BYTES - len("\n".join((_OPEN, *fixed, roots_part, _CLOSE)).encode()) - 1
        fixed[1] += _prefix_list(approved_prefixes, room)
    parts = [_OPEN, *fixed, *([roots_part] if roots_part else []), _CLOSE]
    return developer_message("\n".join(parts))


def _sandbox_part(sandbox: SandboxPolicy, protected: Sequence[str], reads_everything: bool) -> str:
    if sandbox.permissions is not None:
        return _profile_part(sandbox, sandbox.permissions, protected, reads_everything)
    narrow = f"only in {_NARROW} (nothing else of the home folder is there)"
    filled = {
        "{network}": "enabled" if sandbox.has_network else "restricted",
        "{reads}": "everywhere" if reads_everything else narrow,
        "{protected}": _join_names(protected),
    }
    return _fill(text(f"sandbox_{sandbox.mode.replace('-', '_')}"), filled)


def _profile_part(
    sandbox: SandboxPolicy, profile: PermissionProfile, protected: Sequence[str], reads_everything: bool
) -> str:
    """What a permission profile allows, rule by rule, in as many words as it takes."""
    lines = [
        f"- {heading}: {_join_names(places)}"
        for heading, access in (("may be written", "write"), ("may be read", "read"), ("closed", "deny"))
        if (places := [rule.place for rule in profile.rules if rule.access == access])
    ]
    filled = {
        "{mode}": sandbox.mode,
        "{name}": defused_name(visible(profile.name)),
        "{network}": "enabled" if sandbox.has_network else "restricted",
        "{root}": "everything" if reads_everything else _NARROW,
        "{protected}": _join_names(protected),
        "{rules}": "\n".join(lines)[:MAX_RULE_CHARS],
    }
    return _fill(text("sandbox_profile"), filled)


def _fill(template: str, filled: Mapping[str, str]) -> str:
    for mark, value in filled.items():
        template = template.replace(mark, value)
    return template


def _granular_part(granular: Granular, approvals: str) -> str:
    """What may be asked, and what gets a no at once; how to ask for a way out only where that can be asked."""
    refused = [f"- `{kind}`: {about}" for kind, about in _KINDS.items() if kind in granular.refused]
    if not refused:
        return approvals
    said = text("approval_granular") + "\n" + "\n".join(refused)
    return f"{approvals}\n\n{said}" if granular.sandbox_approval else said


def _roots_part(roots: Sequence[str]) -> str:
    unique = list(dict.fromkeys(roots))
    if not unique:
        return "There is no writable root."
    if len(unique) == 1:
        return f"The writable root is {_join_names(unique)}."
    return f"The writable roots are {_join_names(unique)}."


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{defused_name(visible(name))}`" for name in names)


def _prefix_list(prefixes: Iterable[Sequence[str]], room: int) -> str:
    """The approved prefixes, one JSON array per line, as many as the limit and the room allow."""
    lines = sorted({encode_json(list(prefix)).decode().replace("<", "\\u003c") for prefix in prefixes})[:MAX_PREFIXES]
    heading = "\n\n" + text("approved_prefixes") + "\n"
    room -= len(heading.encode())
    kept: list[str] = []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    return heading + "\n".join(kept) if kept else ""
