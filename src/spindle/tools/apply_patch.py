"""`apply_patch` edits files: check the whole patch, ask policy, write, tell everyone.

Reading the language and fitting it to files is `spindle.patch`; touching the disk is `safe_files`. Shell tools that
find a patch inside a command hand it to `apply_patch_text`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.errors import PatchError, ToolError
from spindle.patch.apply import FileChange, Plan, plan_changes, reason_of, summarise
from spindle.patch.parse import DeleteFile, Hunk, UpdateFile, parse_patch
from spindle.policy.sandbox import Boundary
from spindle.policy.secrets import MASK
from spindle.protocol.events import PatchApplyBegin, PatchApplyEnd, TurnDiff, Warning
from spindle.protocol.items import encode_json
from spindle.tools.safe_files import read_file, remove_file, true_path, write_file
from spindle.tools.tool import Permit, ToolCall, ToolContext, ToolResult, parse_arguments
from spindle.workspace.git import find_repository

if TYPE_CHECKING:
    from spindle.tools.services import EditorFiles

_SHELL_HINT = (
    "A patch was sent through a shell command. It was handled as a patch; the model should call apply_patch directly."
)


class ApplyPatchArgs(msgspec.Struct):
    input: str


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    """Answers calls of both flavours, whichever is listed."""
    patch = call.arguments if call.is_freeform else parse_arguments(call, ApplyPatchArgs).input
    started = ctx.clock.monotonic()
    try:
        exit_code, text = 0, await _apply(patch, ctx.settings.cwd, ctx)
    except PatchNotWritten as failure:
        exit_code, text = 1, str(failure)
    seconds = ctx.clock.monotonic() - started
    return ToolResult(output=_format(text, exit_code, seconds, freeform=ctx.output.freeform_patch))


class PatchNotWritten(ToolError):
    """The patch fitted, but the disk refused; the text says which files are changed all the same."""


class PatchFencedOff(PatchNotWritten):
    """The patch would write outside of the boundary; nothing was written."""


async def apply_patch_text(patch: str, cwd: str, ctx: ToolContext) -> str:
    """Apply a patch that a shell command carried; `cwd` is where the command would have run.

    Returns the plain success text. Raises ToolError with a plain text when the patch does not fit, is refused, or
    could not be written.
    """
    ctx.emit(Warning(message=_SHELL_HINT))
    return await _apply(patch, cwd, ctx)


def _format(text: str, exit_code: int, seconds: float, *, freeform: bool) -> str:
    if freeform:
        return f"Exit code: {exit_code}\nWall time: {seconds:.1f} seconds\nOutput:\n{text}"
    metadata = {"exit_code": exit_code, "duration_seconds": round(seconds, 1)}
    return encode_json({"output": text, "metadata": metadata}).decode()


async def _apply(patch: str, cwd: str, ctx: ToolContext) -> str:
    paths = _Paths(cwd, ctx.boundary)
    try:
        hunks = parse_patch(patch)
        if not hunks:
            raise ToolError("patch rejected: empty patch")
        if MASK in patch and (secrets := ctx.processes.secrets) is not None:
            from spindle.tools.unmasking import with_secrets  # seldom

            hunks = with_secrets(hunks, lambda written: paths.read(paths.locate(written, False)), secrets)
        if (editor := _editor(ctx)) is not None:
            await paths.open_in(editor, hunks)
        plan = plan_changes(hunks, paths.locate, paths.read)
    except PatchError as error:
        raise ToolError(f"apply_patch verification failed: {error}") from error
    changes = {change.path: change.to_wire() for change in plan.changes}
    permit = await ctx.permission.patch(changes)
    try:
        return await _write_kept(plan, paths, permit, changes, ctx)
    except PatchFencedOff:
        again = await ctx.permission.patch_retry(changes)
        if again is None:
            raise
    return await _write_kept(plan, paths, again, changes, ctx)


async def _write_kept(plan: Plan, paths: _Paths, permit: Permit, changes: dict[str, Any], ctx: ToolContext) -> str:
    """One attempt, between what is kept of the files before it and after it."""
    if ctx.keeper is None:
        return await _write_and_tell(plan, paths, permit, changes, ctx)
    await ctx.keeper.before([path for change in plan.changes for path in _touched(change, paths)])
    try:
        return await _write_and_tell(plan, paths, permit, changes, ctx)
    finally:
        await ctx.keeper.after()


async def _write_and_tell(plan: Plan, paths: _Paths, permit: Permit, changes: dict[str, Any], ctx: ToolContext) -> str:
    """One attempt, from its begin event to its end event."""
    if permit.asked:
        await paths.look_again(_editor(ctx))
        _require_unchanged(plan, paths)
    ctx.emit(PatchApplyBegin(call_id=ctx.call_id, turn_id=ctx.turn_id, auto_approved=not permit.asked, changes=changes))
    try:
        await _write(plan, paths, permit, ctx)
    except PatchNotWritten as failure:
        _finish(ctx, changes, stderr=str(failure))
        raise
    except asyncio.CancelledError:
        _finish(ctx, changes, stderr="interrupted; no files were changed")
        raise
    text = summarise([plan])
    _finish(ctx, changes, stdout=text)
    return text


def _finish(ctx: ToolContext, changes: dict[str, Any], *, stdout: str = "", stderr: str = "") -> None:
    ctx.emit(
        PatchApplyEnd(
            call_id=ctx.call_id,
            turn_id=ctx.turn_id,
            stdout=stdout,
            stderr=stderr,
            success=not stderr,
            changes=changes,
        )
    )
    root = find_repository(ctx.settings.cwd) or os.path.realpath(ctx.settings.cwd)
    ctx.emit(TurnDiff(unified_diff=ctx.diff.render(root)))


class _Paths:
    """Names of files: as the patch writes them, as people are shown them, and as they really are.

    Shown is the real path, except that what lies below the working directory is shown below its usual name. A link
    that leads out of it is thus seen, by policy and by people, where it ends.
    """

    def __init__(self, cwd: str, boundary: Boundary) -> None:
        self._cwd = cwd
        self._boundary = boundary
        self._true_cwd = os.path.realpath(cwd)
        self._true: dict[str, str] = {}
        self._in_editor: dict[str, bytes | OSError] = {}
        """What an editor has open, or why it does not say."""

    def locate(self, written: str, is_removed: bool) -> str:
        true = true_path(written, self._cwd, keep_last_link=is_removed)
        shown = true
        if true.startswith(self._true_cwd.rstrip("/") + "/"):
            shown = self._cwd.rstrip("/") + "/" + true[len(self._true_cwd) :].lstrip("/")
        self._true[shown] = true
        return shown

    def true(self, shown: str) -> str:
        return self._true[shown]

    def read(self, shown: str) -> bytes:
        true = self._true[shown]
        if not self._boundary.may_read(true):
            raise PermissionError(errno.EACCES, "reading it is denied by the user's settings", shown)
        if (open_there := self._in_editor.get(shown)) is None:
            return read_file(true)
        if isinstance(open_there, OSError):
            raise open_there
        return open_there

    async def open_in(self, editor: EditorFiles, hunks: Sequence[Hunk]) -> None:
        """Ask an editor for the files of a patch; what it does not have open is read from disk."""
        for hunk in hunks:
            is_moved = isinstance(hunk, UpdateFile) and hunk.move_to is not None
            await self._ask(editor, self.locate(hunk.path, isinstance(hunk, DeleteFile) or is_moved))
            if isinstance(hunk, UpdateFile) and hunk.move_to is not None:
                await self._ask(editor, self.locate(hunk.move_to, False))

    async def look_again(self, editor: EditorFiles | None) -> None:
        """The person took time to answer, and may have typed meanwhile."""
        if editor is not None:
            for shown in list(self._in_editor):
                await self._ask(editor, shown)

    async def _ask(self, editor: EditorFiles, shown: str) -> None:
        if not self._boundary.may_read(self._true[shown]):
            return
        try:
            content = await editor.read(shown)
        except OSError as error:
            content = error
        if content is None:
            self._in_editor.pop(shown, None)
        else:
            self._in_editor[shown] = content


def _require_unchanged(plan: Plan, paths: _Paths) -> None:
    """A person may have taken long to say yes, and have edited the file meanwhile."""
    expected = {change.path: change.old for change in plan.changes}
    expected |= {change.move_path: change.replaced for change in plan.changes if change.move_path}
    for path, content in expected.items():
        try:
            now = paths.read(path)
        except OSError:
            now = None
        if now != content:
            raise ToolError(f"apply_patch verification failed: {path} was changed by someone else; read it again")


async def _write(plan: Plan, paths: _Paths, permit: Permit, ctx: ToolContext) -> None:
    """Put the plan on disk, file by file, and record each file that is done. Nothing is written unless all may be."""
    for change in plan.changes:
        try:
            for path in _touched(change, paths):
                _require_permission(path, permit, ctx)
        except OSError as error:
            raise PatchFencedOff(_failure(change, error, [])) from error
    editor = _editor(ctx)
    written = await _write_in_editor(plan, paths, editor) if editor is not None else set()
    done: list[str] = []
    for change in plan.changes:
        try:
            _write_one(change, paths, permit, ctx, written)
        except OSError as error:
            raise PatchNotWritten(_failure(change, error, done)) from error
        done.append(change.move_path or change.path)


def _editor(ctx: ToolContext) -> EditorFiles | None:
    """The editor that files are patched through.

    It opens them by name, outside of the sandbox: a command that runs meanwhile could put a link in the place of a
    file, and lead it anywhere. Where commands cannot write, or can write everything, there is nothing to gain by that.
    """
    is_fenced = ctx.settings.sandbox.amounts_to == "workspace-write"
    return None if is_fenced and ctx.processes.live_count else ctx.editor


async def _write_in_editor(plan: Plan, paths: _Paths, editor: EditorFiles) -> set[str]:
    """Have an editor write what it takes; gives the true paths of that. After a failure nothing is written."""
    written: dict[str, bytes | None] = {}
    """Each with what was there before."""
    for change in plan.changes:
        shown = change.move_path or change.path
        try:
            if change.new is not None and await editor.write(shown, change.new):
                written[shown] = change.replaced if change.move_path else change.old
        except (OSError, asyncio.CancelledError) as error:
            for path, content in written.items():
                await _put_back(path, content, paths, editor)
            if isinstance(error, OSError):
                raise PatchNotWritten(_failure(change, error, [])) from error
            raise
    return {paths.true(shown) for shown in written}


async def _put_back(shown: str, content: bytes | None, paths: _Paths, editor: EditorFiles) -> None:
    try:
        if content is None:
            remove_file(paths.true(shown))
        else:
            await editor.write(shown, content)
    except OSError:
        pass  # it took this file a moment ago; there is nothing else to try


def _failure(change: FileChange, error: OSError, done: list[str]) -> str:
    verb = "delete" if change.kind == "delete" else "write"
    text = f"Failed to {verb} file {change.move_path or change.path}: {reason_of(error)}\n"
    return text + ("These files were already changed:\n" + "\n".join(done) if done else "No files were changed.") + "\n"


def _touched(change: FileChange, paths: _Paths) -> list[str]:
    shown = (change.path, change.move_path) if change.move_path else (change.path,)
    return [paths.true(path) for path in shown]


def _write_one(change: FileChange, paths: _Paths, permit: Permit, ctx: ToolContext, written: Set[str]) -> None:
    """Write one file, unless an editor has `written` it already."""
    source = paths.true(change.path)
    target = paths.true(change.move_path) if change.move_path else source
    for path in dict.fromkeys((source, target)):
        _require_permission(path, permit, ctx)
    if change.new is None:
        ctx.diff.record(source, change.old, None, mode=remove_file(source))
        return
    if target in written:
        mode = stat.S_IMODE(os.stat(target).st_mode)
    else:
        mode = write_file(target, change.new, home=ctx.processes.home)
    if change.move_path is None:
        ctx.diff.record(source, change.old, change.new, mode=mode)
        return
    ctx.diff.record(target, change.replaced, change.new, mode=mode)
    ctx.diff.record(source, change.old, None, mode=remove_file(source))


def _require_permission(path: str, permit: Permit, ctx: ToolContext) -> None:
    """The second fence: what nobody was asked about stays inside the writable roots, whatever the first one said."""
    if permit.asked or not permit.sandboxed:
        return
    if not ctx.boundary.may_write(path):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
