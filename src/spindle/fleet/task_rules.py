"""What a line of a task list may say. Lists are often made from other people's data: nothing in them loosens the fence,
names a program to run on the way to a repository, or holds a password.

`check` makes a `Task` of a line, with absolute paths and schemas inline, or raises `TaskRefused` with a sentence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from spindle.config.kinds import resolve_path
from spindle.errors import ConfigError, UsageError
from spindle.fleet.exchange import Task

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCP = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*):([^:].*)", re.DOTALL)
TRANSPORTS = ("https", "ssh", "file")
_MAX_SCHEMA_BYTES = 1 << 20

REFUSED_KEYS = frozenset(
    (
        *(
            "sandbox_mode",
            "sandbox_workspace_write",
            "approval_policy",
            "features",
            "mcp_servers",
            "model_providers",
            "hooks",
            "notify",
        ),
        *(
            "shell_environment_policy",
            "permissions",
            "default_permissions",
            "allow_login_shell",
            "spindle.sandbox",
            "spindle.fleet",
        ),
        *(
            "model_instructions_file",
            "experimental_instructions_file",
            "experimental_compact_prompt_file",
            "model_catalog_json",
            "agents",
        ),
    )
)
"""With all that a project's own file may not set, and what would read a file of the operator's into a prompt."""


class TaskRefused(Exception):
    """A line of the list cannot be used. `str(error)` says why, without the place."""


class ListedTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line as people write it."""

    id: str
    prompt: str | None = None
    repo: str | None = None
    base: str | None = None
    setup: str | None = None
    verify: str | None = None
    setup_timeout: float | None = None
    verify_timeout: float | None = None
    restore: list[str] = []
    image: list[str] = []
    container: str | None = None
    model: str | None = None
    config: dict[str, Any] = {}
    output_schema: dict[str, Any] | str | None = None
    timeout: float | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    max_requests: int | None = None
    group: str | None = None
    priority: int = 0
    meta: Any = None


_decoder = msgspec.json.Decoder(ListedTask)


def parse(line: bytes) -> ListedTask:
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise TaskRefused(_in_our_words(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TaskRefused(f"this is not a JSON object: {error}") from error
    except RecursionError:
        raise TaskRefused("this is nested too deeply") from None


def check(listed: ListedTask, prompt: str | None, cwd: str) -> Task:
    """The task as it is run. `prompt` is for those without one; relative paths are seen from `cwd`."""
    if not ID.fullmatch(listed.id):
        raise TaskRefused(
            f"the id {listed.id!r} cannot be used: 1 to 128 letters, digits, `.`, `_` and `-`, the first of them a "
            "letter or digit"
        )
    _check_texts(listed)
    _check_numbers(listed)
    repo = None if listed.repo is None else checked_repo(listed.repo, cwd)
    for path in listed.restore:
        _check_restored(path)
    check_config(listed.config, cwd)
    given = {name: value for name, value in msgspec.structs.asdict(listed).items() if value is not None}
    return Task(
        **{
            **given,
            "prompt": _prompt(listed, prompt, repo),
            "repo": repo,
            "image": [_picture(path, cwd) for path in listed.image],
            "output_schema": _schema(listed.output_schema, cwd),
        }
    )


_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_TYPES = re.compile(rf"`((?:{'|'.join(_WORDS)})(?: \| (?:{'|'.join(_WORDS)}))*)`")


def _in_our_words(message: str) -> str:
    """What the decoder says, with the field in front: "`prompt`: expected a text, got a whole number"."""
    reason, _, place = message.partition(" - at `$.")
    reason = _TYPES.sub(lambda found: " or ".join(_WORDS[name] for name in found[1].split(" | ")), reason)
    if place:
        return f"`{place.rstrip('`')}`: {reason[0].lower()}{reason[1:]}"
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", reason, re.DOTALL):
        import difflib  # only when something is wrong

        near = difflib.get_close_matches(unknown[1], ListedTask.__struct_fields__, 1)
        return f"unknown field `{unknown[1]}`" + (f"; did you mean `{near[0]}`?" if near else "")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return f"`{missing[1]}` is missing"
    return f"{reason[0].lower()}{reason[1:]}"


def _check_texts(listed: ListedTask) -> None:
    for name in ("prompt", "repo", "base", "setup", "verify", "container", "model", "group"):
        text = getattr(listed, name)
        if text is not None and "\0" in text:
            raise TaskRefused(f"`{name}` has a NUL in it")
        if text is not None and not text.strip() and name not in ("setup", "verify", "group"):
            raise TaskRefused(f"`{name}` is empty")
    base = listed.base
    if base is not None and (base.startswith("-") or not base.isprintable() or " " in base):
        raise TaskRefused(f"`base`: {base!r} is not a commit, tag or branch")


def _check_numbers(listed: ListedTask) -> None:
    for name in ("timeout", "setup_timeout", "verify_timeout", "max_cost", "max_tokens", "max_requests"):
        number = getattr(listed, name)
        if number is not None and not 0 < number < 1e15:
            raise TaskRefused(f"`{name}` must be above 0, and is {number}")


def _prompt(listed: ListedTask, prompt: str | None, repo: str | None) -> str:
    if listed.prompt is not None:
        return listed.prompt
    if prompt is None:
        raise TaskRefused("`prompt` is missing; give one here, or one for all tasks with --prompt")
    return prompt.replace("{id}", listed.id).replace("{repo}", repo or "")


# ---- where a repository may come from --------------------------------------------------------------------------------


def checked_repo(repo: str, cwd: str) -> str:
    """A URL with a transport that runs nothing of its own, or an absolute path."""
    if _HELPER.match(repo):
        raise TaskRefused(f"`repo`: {repo!r} is refused: {_ALLOWED}")
    if scheme := _SCHEME.match(repo):
        if scheme[1].lower() not in TRANSPORTS:
            raise TaskRefused(f"`repo`: the transport `{scheme[1]}` is refused: {_ALLOWED}")
        _check_address(repo, scheme[1].lower(), repo[scheme.end() :].partition("/")[0])
        return repo
    if (short := _SCP.fullmatch(repo)) and not os.path.exists(resolve_path(repo, cwd)):
        path = short[2] if short[2].startswith(("/", "~")) else f"~/{short[2]}"
        return f"ssh://{short[1]}/{path.removeprefix('/')}"
    return resolve_path(repo, cwd)


_ALLOWED = "a repository is a folder, a bundle file, or a URL with https, ssh or file"


def _check_address(repo: str, scheme: str, address: str) -> None:
    user, at, host = address.rpartition("@")
    if at and (":" in user or scheme == "https"):
        raise TaskRefused(
            "`repo`: a URL with a user or a password in it is refused: the list is kept, and others read it"
        )
    if scheme != "file" and (not host or host.startswith("-") or user.startswith("-")):
        raise TaskRefused(f"`repo`: {repo!r} names no host")


def _check_restored(path: str) -> None:
    parts = path.split("/")
    if not path or path.startswith(("/", ":", "-")) or ".." in parts or ".git" in parts or "\0" in path:
        raise TaskRefused(f"`restore`: {path!r} is not a path inside the repository")


def _picture(path: str, cwd: str) -> str:
    full = resolve_path(path, cwd)
    if "\0" in path or not os.path.isfile(full):
        raise TaskRefused(f"`image`: there is no file {path!r}")
    return full


def _schema(given: dict[str, Any] | str | None, cwd: str) -> dict[str, Any] | None:
    if not isinstance(given, str):
        return given
    try:
        return read_schema(resolve_path(given, cwd))
    except UsageError as error:
        raise TaskRefused(f"`output_schema`: {error}") from error


def read_schema(path: str) -> dict[str, Any]:
    """The JSON Schema in a file. Raises UsageError."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_SCHEMA_BYTES + 1)
        if len(data) > _MAX_SCHEMA_BYTES:
            raise UsageError(f"{path} is larger than {_MAX_SCHEMA_BYTES} bytes")
        found = msgspec.json.decode(data)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a JSON Schema: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path} cannot be used: a JSON Schema is an object")
    return found


# ---- configuration ---------------------------------------------------------------------------------------------------


def check_config(config: Mapping[str, Any], cwd: str) -> None:
    """Refuse keys that only the operator may set, and those that nobody knows."""
    if not config:
        return
    from spindle.config.keys import KEYS, NOT_FOR_PROJECTS  # few lists have settings of their own
    from spindle.config.reading import LayerReader  # likewise
    from spindle.config.sources import overrides_layer  # likewise

    refused = REFUSED_KEYS | NOT_FOR_PROJECTS
    try:
        layer = overrides_layer((), config, cwd)
        for path in _paths(layer.values):
            for end in range(1, len(path) + 1):
                if (key := ".".join(path[:end])) in refused:
                    raise TaskRefused(f"`config`: {key} cannot be set by a task; the operator can, with -c {key}=…")
        LayerReader(strict=True).check(layer, KEYS)
    except (ConfigError, UsageError) as error:
        raise TaskRefused(f"`config`: {str(error).removeprefix('-c: ')}") from error
    except RecursionError:
        raise TaskRefused("`config` is nested too deeply") from None


def _paths(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))
