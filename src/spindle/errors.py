"""The whole error tree. No formatting for people beyond the message itself, no HTTP.

    SpindleError                 every failure we foresee; str(error) is one sentence a person can use
    ├── UsageError               the command line cannot be used; exit code 2
    ├── ConfigError              the user's configuration cannot be used; exit code 1
    │   └── RulesError           a .rules file cannot be read or written
    ├── ThreadError              a recorded thread cannot be used
    │   ├── ThreadNotFound       no such thread
    │   └── ThreadLocked         another process is writing it
    ├── ModelError               the model cannot answer; asking again would not help
    │   └── ImageRejected        the server cannot read an image we sent
    ├── StreamDropped            the answer broke off; asking again is safe
    ├── ToolError                tell the model, go on with the turn
    │   └── Rejected             policy or a person said no
    ├── McpError                 an MCP server cannot be reached, or does not answer as it should
    ├── PatchError               a patch cannot be read, or does not fit the files
    └── SandboxUnavailable       no sandbox can be started here; nothing was run

Anything else that is raised is a bug of ours.
"""

from __future__ import annotations

ErrorInfo = str | dict[str, dict[str, int | None]]
"""What kind of failure, for machines: "bad_request", or {"response_stream_disconnected": {"http_status_code": 502}}."""


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


class ModelError(SpindleError):
    """The model cannot answer, and asking again would not help. `advice` is what the person can do about it."""

    def __init__(self, message: str, info: ErrorInfo = "other", *, advice: str = "") -> None:
        super().__init__(with_advice(message, advice))
        self.info = info


class ImageRejected(ModelError):
    """The server cannot read an image we sent; without that image, asking again may help."""


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
    """Policy or a person said no. `by_user` when a person did: then no begin event is shown."""

    def __init__(self, message: str, *, by_user: bool = False) -> None:
        super().__init__(message)
        self.by_user = by_user


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


def reason_of(error: SpindleError | OSError) -> str:
    """One sentence for a person; for what the system refused its reason, and of which file."""
    if isinstance(error, SpindleError):
        return str(error)
    reason = error.strerror or str(error) or type(error).__name__
    if not isinstance(error.filename, str):
        return reason
    name = error.filename
    return f"{reason}: {name if len(name) <= 200 else name[:200] + '…'}"
