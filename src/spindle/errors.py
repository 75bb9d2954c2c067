"""The whole error tree. No formatting for people beyond the message itself, no HTTP.

    SpindleError                 every failure we foresee; str(error) is one sentence a person can use
    ├── UsageError               the command line cannot be used; exit code 2
    ├── ConfigError              the user's configuration cannot be used; exit code 1
    │   └── RulesError           a .rules file cannot be read or written
    ├── ThreadError              a recorded thread cannot be used
    │   ├── ThreadNotFound       no such thread
    │   ├── ThreadLocked         another process is writing it
    │   ├── ThreadBusy           a turn of it runs
    │   └── ThreadClosed         it, or its client, was closed
    ├── ModelError               the model cannot answer; asking again would not help
    │   ├── ImageRejected        the server cannot read an image we sent
    │   ├── WindowFull           the conversation does not fit into the model's window
    │   └── BudgetReached        a budget is used up; the request was not made
    ├── StreamDropped            the answer broke off; asking again is safe
    ├── ToolError                tell the model, go on with the turn
    │   └── Rejected             policy or a person said no
    ├── ToolDefinitionError      a function cannot be a tool (also a TypeError)
    ├── OutputInvalid            the answer does not fit the type that was asked for (also a ValueError)
    ├── McpError                 an MCP server cannot be reached, or does not answer as it should
    ├── PatchError               a patch cannot be read, or does not fit the files
    ├── SandboxUnavailable       no sandbox can be started here; nothing was run
    ├── CallbackError            a callback of the embedding program raised
    ├── UndoConflict             files have changed since; nothing was undone
    └── TurnFailed               a turn ended without an answer (also a RuntimeError)
        ├── BudgetExceeded       its budget is used up
        └── TurnTimeout          it took longer than it was given (also a TimeoutError)

Anything else that is raised is a bug of ours.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BudgetExceeded",
    "CallbackError",
    "ConfigError",
    "ModelError",
    "OutputInvalid",
    "SandboxUnavailable",
    "SpindleError",
    "StreamDropped",
    "ThreadBusy",
    "ThreadClosed",
    "ThreadError",
    "ThreadLocked",
    "ThreadNotFound",
    "ToolDefinitionError",
    "ToolError",
    "TurnFailed",
    "TurnTimeout",
    "UndoConflict",
]
"""What programs that embed the engine may rely on. The rest is for the program itself."""

ErrorInfo = str | dict[str, dict[str, int | None]]
"""What kind of failure, for machines: "bad_request", or {"response_stream_disconnected": {"http_status_code": 502}}."""

RETRYABLE = frozenset(
    (
        "http_connection_failed",
        "response_stream_connection_failed",
        "response_stream_disconnected",
        "response_too_many_failed_attempts",
        "internal_server_error",
        "server_overloaded",
        "timeout",
    )
)
"""Kinds of failure that may have nothing to do with what was asked."""
RETRYABLE_STATUSES = frozenset((408, 409, 425, 429))
"""Answers below 500 that say no more than: not now."""


def kind_of(info: ErrorInfo | None) -> str:
    """The kind of a failure as one word."""
    if isinstance(info, dict):
        return next(iter(info), "other")
    return info or "other"


def is_unreached(info: ErrorInfo | None) -> bool:
    """No server was reached: one that refuses has a status."""
    return kind_of(info) == "http_connection_failed" and status_of(info) is None


def status_of(info: ErrorInfo | None) -> int | None:
    """The status that a server answered with, where that is known."""
    details = next(iter(info.values()), {}) if isinstance(info, dict) else {}
    return details.get("http_status_code")


def may_pass(info: ErrorInfo | None) -> bool:
    """Could asking the same again later help?"""
    status = status_of(info) or 500
    return kind_of(info) in RETRYABLE and (status >= 500 or status in RETRYABLE_STATUSES)


def with_advice(fact: str, advice: str) -> str:
    """What happened, and then what to do about it, as two sentences."""
    if not advice:
        return fact
    return f"{fact if fact.endswith(('.', '!', '?', '…')) else fact + '.'} {advice}"


class SpindleError(Exception):
    """Every failure we foresee. `str(error)` is one sentence a person can use."""


class UsageError(SpindleError):
    """The command line cannot be used. Exit code 2."""


class ConfigError(SpindleError):
    """The user's configuration cannot be used. Shown as is; exit code 1."""


class RulesError(ConfigError):
    """A .rules file cannot be read or written. Names the file, and the line if there is one."""


class ThreadError(SpindleError):
    """A recorded thread cannot be used."""


class ThreadNotFound(ThreadError):
    """There is no such thread."""


class ThreadLocked(ThreadError):
    """Another process is writing this thread."""


class ThreadBusy(ThreadError):
    """A turn of this thread runs; `steer` adds to it, and nothing else can begin before it ends."""


class ThreadClosed(ThreadError):
    """This thread, or the client it belongs to, was closed."""


class ModelError(SpindleError):
    """The model cannot answer, and asking again would not help. `advice` is what the person can do about it."""

    def __init__(self, message: str, info: ErrorInfo = "other", *, advice: str = "") -> None:
        super().__init__(with_advice(message, advice))
        self.info = info


class ImageRejected(ModelError):
    """The server cannot read an image we sent; without that image, asking again may help."""


class WindowFull(ModelError):
    """The conversation does not fit into the model's window; a shorter one may. `window` is its size in tokens, if
    the server names it."""

    def __init__(self, message: str, window: int | None = None, *, advice: str = "") -> None:
        super().__init__(message, "context_window_exceeded", advice=advice)
        self.window = window


class BudgetReached(ModelError):
    """A budget is used up, so the request was not made. `budget`: scope, limit, max, used."""

    def __init__(self, message: str, budget: dict[str, Any]) -> None:
        super().__init__(message, "budget_exceeded")
        self.budget = budget


class StreamDropped(SpindleError):
    """The answer broke off; asking again is safe. `delay_s` is what the server asked us to wait."""

    def __init__(
        self,
        message: str,
        *,
        delay_s: float | None = None,
        info: ErrorInfo = "other",
        final: str | None = None,
        advice: str = "",
    ) -> None:
        super().__init__(message)
        self.delay_s = delay_s
        self.info = info
        self.final = final or message
        """What to say when the retries are used up."""
        self.advice = advice
        """What the person can do then."""

    def given_up(self, retries: int) -> ModelError:
        """The error to raise when this many retries were in vain."""
        times = f" (gave up after {retries} {'retry' if retries == 1 else 'retries'})" if retries else ""
        return ModelError(self.final.rstrip(".") + times if times else self.final, self.info, advice=self.advice)


class ToolError(SpindleError):
    """Tell the model; the turn goes on."""


class Rejected(ToolError):
    """Policy or a person said no. `by_user` when a person did: then no begin event is shown. `has_reason`: and why."""

    def __init__(self, message: str, *, by_user: bool = False, has_reason: bool = False) -> None:
        super().__init__(message)
        self.by_user = by_user
        self.has_reason = has_reason


class ToolDefinitionError(SpindleError, TypeError):
    """A function cannot be offered to the model as a tool. Names the function, and what to change."""


class OutputInvalid(SpindleError, ValueError):
    """The model's answer does not fit the type that was asked for.

    `text` is the answer as it came, `result` the `TurnResult` of the turn that gave it.
    """

    def __init__(self, message: str, *, text: str = "", result: Any = None) -> None:
        super().__init__(message)
        self.text = text
        self.result = result


class McpError(SpindleError):
    """An MCP server cannot be reached, or does not answer as it should."""


class PatchError(SpindleError):
    """A patch cannot be read, or does not fit the files."""


class SandboxUnavailable(SpindleError):
    """No sandbox can be started here; nothing was run."""

    @property
    def fact(self) -> str:
        """What happened, without the advice that follows: how to do without a fence is for people, not for a model."""
        before, ran, _ = str(self).partition("nothing was run")
        return before + ran


class CallbackError(SpindleError):
    """A callback of the embedding program raised; `__cause__` is what it raised. The turn was stopped.

    `result` is the `TurnResult` with what was reached until then.
    """

    def __init__(self, message: str, *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class UndoConflict(SpindleError):
    """Files have changed since the turns that were to be undone; nothing was changed. `report` names them."""

    def __init__(self, message: str, *, report: Any = None) -> None:
        super().__init__(message)
        self.report = report


class TurnFailed(SpindleError, RuntimeError):
    """A turn ended without an answer. `result` is the `TurnResult` with what was reached until then."""

    def __init__(self, message: str, *, result: Any = None, info: ErrorInfo | None = None) -> None:
        super().__init__(message)
        self.result = result
        self.info = kind_of(info)
        """What kind of failure, for machines: "bad_request", "response_stream_disconnected", "unauthorized", …"""
        self.is_retryable = may_pass(info)
        """Could the same turn, run again later, go well? True when the server failed, or the way to it."""


class BudgetExceeded(TurnFailed):
    """The budget of the turn or of the thread is used up; `budget` says which limit and how much was used."""

    def __init__(
        self,
        message: str,
        *,
        result: Any = None,
        info: ErrorInfo | None = "budget_exceeded",
        budget: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, result=result, info=info)
        self.budget = budget


class TurnTimeout(TurnFailed, TimeoutError):
    """The turn took longer than its `timeout` and was interrupted."""

    def __init__(self, message: str, *, result: Any = None, info: ErrorInfo | None = "timeout") -> None:
        super().__init__(message, result=result, info=info)


def reason_of(error: SpindleError | OSError) -> str:
    """One sentence for a person; for what the system refused its reason, and of which file."""
    if isinstance(error, SpindleError):
        return str(error)
    reason = error.strerror or str(error) or type(error).__name__
    if not isinstance(error.filename, str):
        return reason
    name = error.filename
    return f"{reason}: {name if len(name) <= 200 else name[:200] + '…'}"
