"""The options of clients, threads and turns: what may be given, and the check before anything is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, TypeVar

import msgspec

from spindle.api.budgets import Budget, budget_limits
from spindle.api.inputs import ImageSource
from spindle.model.client import ModelClient
from spindle.protocol.settings import APPROVAL_POLICIES, EFFORTS, PERSONALITIES, SANDBOX_MODES, SUMMARIES

Path = str | os.PathLike[str]
ApprovalPolicy = Literal["untrusted", "on-failure", "on-request", "never"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]
Summary = Literal["auto", "concise", "detailed", "none"]
Personality = Literal["friendly", "pragmatic", "none"]
Mode = Literal["plan", "default"]
ExportFormat = Literal["markdown", "html", "json"]
MODES = ("plan", "default")
MAX_NAME_CHARACTERS = 200


class Sandbox(StrEnum):
    """What commands and patches of the model may reach."""

    read_only = "read-only"
    workspace_write = "workspace-write"
    full_access = "full-access"


SandboxMode = Literal["read-only", "workspace-write", "danger-full-access", "full-access"] | Sandbox


Options = TypeVar("Options", bound=msgspec.Struct)


class ThreadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread is opened with. None = as recorded for resume and fork, else as configured."""

    cwd: Path | None = None
    add_dirs: Sequence[Path] | None = None
    sandbox: str | None = None
    approval_policy: str | None = None
    model: str | None = None
    model_provider: str | None = None
    effort: str | None = None
    summary: str | None = None
    personality: str | None = None
    mode: str | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    config: Mapping[str, Any] | None = None
    ephemeral: bool = False
    name: str | None = None
    tools: Sequence[Any] | None = None
    hooks: Mapping[str, Any] | None = None
    agents: bool | Mapping[str, Any] | None = None
    budget: Budget | None = None
    on_approval: Callable[..., Any] | None = None
    on_question: Callable[..., Any] | None = None
    model_client: ModelClient | None = None

    def checked(self) -> ThreadOptions:
        """The same with paths made absolute and names made whole. Raises ValueError for a value that cannot be."""
        for option in ("model", "model_provider", "base_instructions", "developer_instructions"):
            check_text(option, getattr(self, option))
        for option in ("on_approval", "on_question"):
            _callable(option, getattr(self, option))
        for option, kind in (("config", Mapping), ("hooks", Mapping), ("ephemeral", bool)):
            if getattr(self, option) is not None and not isinstance(getattr(self, option), kind):
                raise ValueError(f"{option} cannot be {getattr(self, option)!r}")
        if isinstance(self.tools, str | bytes) or not isinstance(self.tools, Sequence | None):
            raise ValueError("tools is a list of functions")
        budget_limits(self.budget)
        check_model_client(self.model_client)
        return msgspec.structs.replace(
            self,
            cwd=_folder("cwd", self.cwd),
            add_dirs=_folders(self.add_dirs),
            sandbox=sandbox_mode(self.sandbox),
            approval_policy=_one_of("approval_policy", self.approval_policy, APPROVAL_POLICIES),
            effort=_one_of("effort", self.effort, EFFORTS),
            summary=_one_of("summary", self.summary, SUMMARIES),
            personality=_one_of("personality", self.personality, PERSONALITIES),
            mode=_one_of("mode", self.mode, MODES),
            name=None if self.name is None else thread_name(self.name),
        )


class TurnOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one turn is run with."""

    images: Sequence[ImageSource] | None = None
    output_type: Any = None
    output_schema: dict[str, Any] | None = None
    output_retries: int = 0
    timeout: float | None = None
    budget: Budget | None = None
    mode: str | None = None
    cwd: Path | None = None
    sandbox: str | None = None
    approval_policy: str | None = None
    model: str | None = None
    effort: str | None = None
    summary: str | None = None
    personality: str | None = None

    def checked(self) -> TurnOptions:
        """The same, checked as the options of a thread are."""
        check_text("model", self.model)
        budget_limits(self.budget)
        if self.output_type is not None and self.output_schema is not None:
            raise ValueError("output_type and output_schema cannot be given together")
        if not isinstance(self.output_schema, dict | None):
            raise ValueError("output_schema is a JSON schema as a dict")
        if type(self.output_retries) is not int or self.output_retries < 0:
            raise ValueError(f"output_retries is a number of 0 or more, not {self.output_retries!r}")
        is_number = isinstance(self.timeout, int | float) and not isinstance(self.timeout, bool)
        if self.timeout is not None and not (is_number and self.timeout > 0):
            raise ValueError(f"timeout is a number of seconds above 0, not {self.timeout!r}")
        return msgspec.structs.replace(
            self,
            cwd=_folder("cwd", self.cwd),
            sandbox=sandbox_mode(self.sandbox),
            approval_policy=_one_of("approval_policy", self.approval_policy, APPROVAL_POLICIES),
            effort=_one_of("effort", self.effort, EFFORTS),
            summary=_one_of("summary", self.summary, SUMMARIES),
            personality=_one_of("personality", self.personality, PERSONALITIES),
            mode=_one_of("mode", self.mode, MODES),
        )


def options_of(kind: type[Options], arguments: Mapping[str, Any]) -> Options:
    """The options among the arguments of a call, which are its `locals()` before it has any other.

    A public function writes its options out, because its signature is the reference, and has each by its own name.
    """
    return kind(**{name: arguments[name] for name in kind.__struct_fields__})


def sandbox_mode(given: Any) -> str | None:
    """The mode by its one name."""
    value = given.value if isinstance(given, Sandbox) else given
    if value == Sandbox.full_access.value:
        return "danger-full-access"
    return _one_of("sandbox", value, SANDBOX_MODES)


def thread_name(text: Any) -> str:
    name = text.strip() if isinstance(text, str) else ""
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise ValueError(f"a thread's name has between 1 and {MAX_NAME_CHARACTERS} printable characters: {text!r:.80}")
    return name


def check_model_client(client: Any) -> None:
    """Raise ValueError for what cannot be a model client."""
    missing = [name for name in ("stream", "compact", "warm", "aclose") if not callable(getattr(client, name, None))]
    if client is not None and missing:
        raise ValueError(f"model_client (of type {type(client).__name__}) has no {', '.join(missing)}; see ModelClient")


def _one_of(option: str, value: Any, allowed: tuple[str, ...]) -> str | None:
    if value is not None and value not in allowed:
        raise ValueError(f"{option} is {value!r}, but must be one of {', '.join(allowed)}")
    return value


def check_text(option: str, value: Any) -> None:
    """Raise ValueError unless it was left out or says something."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ValueError(f"{option} must be a text that is not empty, not {value!r}")
    if value is not None and any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError(f"{option} has half a character in it, which no request can carry: {value!r}")


def check_id(value: Any) -> None:
    """Raise ValueError unless it can be the id or name of a thread."""
    if not isinstance(value, str):
        raise ValueError(f"a thread is named by the text of its id or name, not by {value!r}")


def _callable(option: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise ValueError(f"{option} must be a function or a coroutine function, not {value!r}")


def _folder(option: str, value: Any) -> str | None:
    if value is None:
        return None
    try:
        path = os.path.realpath(os.path.expanduser(os.fspath(value)))
        if isinstance(path, str) and os.path.isdir(path) and os.fspath(value):  # "" would be the current one
            return path
    except (TypeError, ValueError):  # no path at all, or one with a NUL
        pass
    raise ValueError(f"{option} {value!r} is not a folder")


def _folders(values: Any) -> tuple[str, ...] | None:
    if values is None:
        return None
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Sequence):
        raise ValueError("add_dirs is a list of folders")
    if None in values:
        raise ValueError("add_dirs: None is not a folder")
    return tuple(folder for value in values if (folder := _folder("add_dirs", value)) is not None)
