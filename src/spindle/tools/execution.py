"""What all shell tools share: permission to run, and the events people see."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import msgspec

from spindle.errors import Rejected, SandboxUnavailable, ToolError
from spindle.patch.heredoc import BARE_PATCH_HINT, find_patch, is_bare_patch
from spindle.policy.approval import looks_denied
from spindle.policy.commands import parse_command
from spindle.policy.sandbox import absolute
from spindle.process.command import Command
from spindle.process.output import OutputRing
from spindle.protocol.events import (
    Duration,
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    Msg,
    Warning,
)
from spindle.tools.apply_patch import PatchNotWritten, apply_patch_text
from spindle.tools.command_arguments import PermissionArgs
from spindle.tools.shown_output import cut_for_model, whole_text
from spindle.tools.tool import Permit, ToolContext

if TYPE_CHECKING:
    from spindle.policy.secret_stream import StreamMasker
    from spindle.process.table import LiveProcess

NEVER_RAN = -1
DELTA_BYTES = 1024 * 1024
DELTA_COUNT = 10_000


def refuse_masks(text: str, ctx: ToolContext) -> None:
    """A mask in a command would be taken for the value, and end up in the user's files. Raises ToolError."""
    found = None if ctx.processes.secrets is None else ctx.processes.secrets.mask_in(text)
    if found is not None:
        raise ToolError(
            f"{found} stands for a secret that was masked, so nothing was run: the mask would be used in its place. "
            "Let the command take the value from where it is (a variable, a file), without writing it out"
        )


class Execution:
    """One command of one call, as people see it: begin, output, end."""

    def __init__(
        self, ctx: ToolContext, argv: Sequence[str], cwd: str, *, source: str = "agent", process_id: str | None = None
    ) -> None:
        self._ctx = ctx
        self._source = source
        self._process_id = process_id
        self._parsed = parse_command(argv)
        self._bytes_left = DELTA_BYTES
        self._deltas_left = DELTA_COUNT
        self._was_asked = False
        self._is_over = False
        self._masker: StreamMasker | None = None
        self.argv = list(argv)
        self.cwd = cwd

    def refused(self, refusal: Rejected) -> None:
        """It may not run: people see that, unless it was their own answer."""
        if not refusal.by_user:
            self.begin()
            self.never_ran(str(refusal))

    def permitted(self, permit: Permit, *, tty: bool = False) -> Command:
        """It may run: the command to start."""
        self._was_asked = permit.asked
        if permit.cwd is not None and os.path.realpath(self.cwd) != permit.cwd:
            raise ToolError(
                f"{self.cwd} led to {permit.cwd} when this was approved and no longer does; nothing was run"
            )
        boundary = self._ctx.boundary
        return Command(
            argv=self.argv,
            cwd=permit.cwd or self.cwd,
            boundary=boundary if permit.sandboxed else boundary.let_out(),
            tty=tty,
        )

    async def permit_retry(self, command: Command, exit_code: int, output: OutputRing) -> Command | None:
        """After its end: the command to run once more, outside, if the sandbox stopped it and a person says so.

        A person who approved the run inside is not asked a second time, and their yes does not count for a run outside.
        """
        if not command.is_confined or command.is_let_out or self._was_asked:
            return None
        if not looks_denied(exit_code, output.peek().text()):
            return None
        try:
            if not await self._ctx.permission.retry(self.argv, cwd=self.cwd, tty=command.tty):
                return None
        except Rejected as refusal:
            output.add(f"\n{refusal}\n".encode())  # the model reads it with the output
            return None
        self._bytes_left, self._deltas_left = DELTA_BYTES, DELTA_COUNT
        return msgspec.structs.replace(command, boundary=self._ctx.boundary.let_out())

    def begin(self) -> None:
        self._is_over = False
        self._ctx.emit(
            ExecCommandBegin(
                call_id=self._ctx.call_id,
                turn_id=self._ctx.turn_id,
                command=self.argv,
                cwd=self.cwd,
                parsed_cmd=self._parsed,
                source=self._source,
                process_id=self._process_id,
            )
        )

    def output(self, data: bytes) -> None:
        """Show output while it comes; a flood is shown only at the end."""
        if self._bytes_left <= 0 or self._deltas_left <= 0:
            return
        data = data[: self._bytes_left]
        self._bytes_left -= len(data)
        self._deltas_left -= 1
        if (secrets := self._ctx.processes.secrets) is not None:
            masker = self._masker = self._masker or secrets.output_stream()
            data = masker.feed(data)
        if data:
            self._show(data)

    def _show(self, data: bytes) -> None:
        self._ctx.emit(ExecCommandOutputDelta(call_id=self._ctx.call_id, stream="stdout", chunk=data))

    def end(
        self, exit_code: int, output: OutputRing, duration_s: float, *, tell: Callable[[Msg], None] | None = None
    ) -> None:
        """The command is over. `tell` replaces this call's `emit` when a later call waits for the end."""
        masker, self._masker = self._masker, None
        if masker is not None and (rest := masker.finish()):
            self._show(rest)
        policy = self._ctx.output.truncation
        formatted, _ = cut_for_model(output.peek(), policy.mode, policy.limit)
        self._emit_end(exit_code, whole_text(output.peek()), formatted, duration_s, tell)

    def ended(self, live: LiveProcess) -> None:
        """The same for a command that may outlive its call.

        Called long after that, too: when the command ends on its own, or while another call waits for it.
        """
        assert live.ended is not None and live.exit_code is not None
        if live.running.never_ran:
            return  # `refuse_start` tells it
        self.end(live.exit_code, live.transcript, live.ended - live.started, tell=live.tell)

    def stopped_early(self) -> None:
        """It was interrupted before anybody waited for its end; what had begun by then has told its end itself."""
        if not self._is_over:
            self.never_ran("aborted by user before it started")

    def never_ran(self, reason: str) -> None:
        self._emit_end(NEVER_RAN, reason, reason, 0.0)

    def refuse_start(self, error: OSError | SandboxUnavailable) -> NoReturn:
        """The command could not be started: tell people, then the model."""
        if isinstance(error, SandboxUnavailable):
            text = error.fact
            if not self._ctx.processes.told_about_sandbox:
                self._ctx.processes.told_about_sandbox = True
                self._ctx.emit(Warning(message=str(error)))
        elif error.filename == self.cwd:
            text = f"the working directory {self.cwd} does not exist or is not a folder"
        else:
            text = f"cannot run {self.argv[0]}: {error.strerror or error}"
        self.never_ran(text)
        raise ToolError(text) from error

    def _emit_end(
        self, exit_code: int, text: str, formatted: str, duration_s: float, tell: Callable[[Msg], None] | None = None
    ) -> None:
        self._is_over = True
        (tell or self._ctx.emit)(
            ExecCommandEnd(
                call_id=self._ctx.call_id,
                turn_id=self._ctx.turn_id,
                command=self.argv,
                cwd=self.cwd,
                parsed_cmd=self._parsed,
                source=self._source,
                process_id=self._process_id,
                stdout=text,
                aggregated_output=text,
                exit_code=exit_code,
                duration=Duration.of(duration_s),
                formatted_output=formatted,
            )
        )


def folder_of(args: PermissionArgs, ctx: ToolContext) -> str:
    """Where the command is to run."""
    return os.path.normpath(absolute(args.workdir, ctx.settings.cwd)) if args.workdir else ctx.settings.cwd


async def apply_patch_instead(argv: Sequence[str], cwd: str, ctx: ToolContext) -> tuple[int, str] | None:
    """If the command is really a patch: apply it, and answer the exit code and the text. None for any other command."""
    found = find_patch(argv)
    if found is None:
        if is_bare_patch(argv):
            raise ToolError(BARE_PATCH_HINT)
        return None
    patch, folder = found
    try:
        return 0, await apply_patch_text(patch, absolute(folder, cwd) if folder else cwd, ctx)
    except Rejected:
        raise
    except PatchNotWritten as error:
        return 1, str(error)
    except ToolError as error:
        from spindle.protocol.failed_calls import ToolCallFailed  # with the first call that fails

        ctx.emit(ToolCallFailed(call_id=ctx.call_id, tool="apply_patch", message=str(error)))
        return 1, str(error)
