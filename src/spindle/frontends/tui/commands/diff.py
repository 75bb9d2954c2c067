"""`/diff`: what is not committed yet, untracked files too, in the pager.

A repository is not to be trusted: its settings can make git run programs. Those that can be switched off are; where
others are named, nothing runs before the person has said so.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator

from spindle.errors import SpindleError
from spindle.frontends.fit import counted
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import name, safe
from spindle.frontends.tui.text.diffs import unified
from spindle.frontends.tui.views.list import ListView, Row
from spindle.policy.git_drivers import git_may_run_programs
from spindle.policy.safe import safe_environment
from spindle.process.lookup import find_installed
from spindle.workspace.files import read_regular
from spindle.workspace.git import find_repository

CR = "\r"
_PATIENCE_S = 60.0
_MOST_BYTES = 32 << 20
_MOST_FILES = 500
_MOST_CHOICES = 200
_FILE_BYTES = 1 << 20
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")


async def show(desk: Desk, argument: str) -> None:
    cwd = desk.thread.settings.cwd if desk.thread is not None else desk.config.cwd
    root = await asyncio.to_thread(find_repository, cwd)
    if root is None:
        raise SpindleError(f"{name(cwd)} is not in a git repository, so there is nothing to compare with")
    if await asyncio.to_thread(git_may_run_programs, (), root) and not await _is_agreed(desk, root):
        return
    git = Git(root)
    changed, untracked = await git.changes(), await git.untracked()
    lines = await asyncio.to_thread(lambda: [*unified(changed.decode("utf-8", "replace")), *_added(root, untracked)])
    if not lines:
        desk.say("Nothing has changed since the last commit.")
        return
    await desk.page(f"Changes in {name(root)}", lines)


async def _is_agreed(desk: Desk, root: str) -> bool:
    rows = [
        Row(value=False, name="No"),
        Row(value=True, name="Yes, run git here", about="with your own rights, outside the sandbox"),
    ]
    note = f"The settings of {name(root)} name programs that git runs when it compares files."
    return bool(await desk.ask(ListView("Let git run what this repository names?", rows, note=note)))


class Git:
    """Git in one repository, with everything switched off that could run a program without being asked for."""

    def __init__(self, root: str) -> None:
        self._root = root
        program = find_installed("git", cwd=root)
        if program is None:
            raise SpindleError("git is not installed, so changes cannot be shown")
        self._program = program

    async def changes(self) -> bytes:
        """Everything that differs from the last commit; before the first one, what is staged."""
        done = await self._run(*_DIFF, "HEAD", "--")
        return done if done is not None else await self._run(*_DIFF, "--cached", "--") or b""

    async def untracked(self) -> list[str]:
        """Paths below the root, in the order of git."""
        found = await self._run("ls-files", "--others", "--exclude-standard", "-z", "--full-name", "--", ".")
        return [os.fsdecode(path) for path in (found or b"").split(b"\0") if path]

    async def branches(self) -> list[str]:
        """The local branches but for the present one, the one that was worked on last first."""
        shape = "--format=%(if)%(HEAD)%(then)%(else)%(refname:short)%(end)"
        words = ("for-each-ref", "--sort=-committerdate", f"--count={_MOST_CHOICES}", shape, "refs/heads")
        return [branch for branch in await self._lines(*words) if branch.strip()]

    async def commits(self) -> list[tuple[str, str]]:
        """The last commits: hash and title. Signatures are not looked at, because that runs a program."""
        words = ("log", "--no-show-signature", "--no-color", f"--max-count={_MOST_CHOICES}", "--format=%H %s")
        found = [entry.partition(" ") for entry in await self._lines(*words)]
        return [(sha, title) for sha, _, title in found if sha]

    async def _lines(self, *words: str) -> list[str]:
        return (await self._run(*words) or b"").decode("utf-8", "replace").splitlines()

    async def _run(self, *words: str) -> bytes | None:
        """What it printed; None when it failed."""
        argv = [self._program, "-C", self._root, *words]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        environment |= safe_environment(["git", "status"]) | {"LC_ALL": "C.UTF-8"}
        running = await asyncio.create_subprocess_exec(
            *argv, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=environment, start_new_session=True
        )
        assert running.stdout is not None
        try:
            output = await asyncio.wait_for(_read(running.stdout), _PATIENCE_S)
        except TimeoutError:
            where = name(self._root)
            raise SpindleError(f"git took longer than {_PATIENCE_S:.0f} s in {where} and was stopped") from None
        finally:
            if running.returncode is None and not running.stdout.at_eof():
                running.kill()
            await running.wait()
        return output if running.returncode == 0 or len(output) >= _MOST_BYTES else None


async def _read(stream: asyncio.StreamReader) -> bytes:
    """All of it, up to a bound; what is more than that nobody reads in a pager."""
    parts: list[bytes] = []
    size = 0
    while size < _MOST_BYTES and (part := await stream.read(1 << 16)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _added(root: str, paths: list[str]) -> Iterator[Line]:
    """Files that git does not know yet, as if they were added."""
    for path in paths[:_MOST_FILES]:
        shown = name(path)
        yield line(Span(f"diff --git a/{shown} b/{shown}", "bold"))
        yield line(Span("new file, untracked", "dim"))
        yield from _content(f"{root}/{path}")
        yield BLANK
    if len(paths) > _MOST_FILES:
        yield line(Span(f"… and {counted(len(paths) - _MOST_FILES, 'more untracked file')}", "dim"))


def _content(path: str) -> Iterator[Line]:
    try:
        if os.path.islink(path):
            yield line(Span(f"+link to {name(os.readlink(path))}", "added"))
            return
        data = read_regular(path, _FILE_BYTES)
    except OSError as error:
        yield line(Span(f"(not shown: {clean(error.strerror or 'it cannot be read')})", "dim"))
        return
    if b"\0" in data:
        yield line(Span(f"(binary, {counted(len(data), 'byte')})", "dim"))
        return
    for text in data.decode("utf-8", "replace").removesuffix("\n").split("\n"):
        yield Line((Span(f"+{safe(text.removesuffix(CR))}", "added"),), (), True)
    if len(data) == _FILE_BYTES:
        yield line(Span(f"(the first {_FILE_BYTES:,} bytes of it)", "dim"))
