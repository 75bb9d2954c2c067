"""Bare mirrors of the repositories that tasks name: one each on a node, fetched by one process at a time.

A mirror is made under another name and renamed when it is whole; a later fetch that is cut short leaves objects that
nobody names, and lock files that the next one, which holds our lock, removes.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from spindle.errors import SpindleError
from spindle.fleet.attempt.git import Git, GitFailed, Repository
from spindle.protocol.quote import visible
from spindle.workspace.git import strip_credentials

FETCH_S = 900.0
_POLL_S = 0.05
_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_SCHEMES = ("https", "ssh", "file")
_HEAD = "refs/spindle/HEAD"
_REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_EMPTY = "empty"
_EMPTY_COMMIT = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (
        ("NAME", "Spindle"),
        ("EMAIL", "spindle@localhost"),
        ("DATE", "2000-01-01T00:00:00Z"),
    )
}
_SLOW = ("timed out", "Could not resolve host", "Connection reset", "early EOF", "unexpected disconnect")
"""What a fetch says that may well go through the next time."""


class NoSource(SpindleError):
    """There is no such repository or commit, or it cannot be had."""

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What a task starts from."""

    mirror: str
    commit: str
    """The full hash."""
    url: str | None
    """Where it came from, without a password; None for an empty repository."""


class Mirrors:
    """All mirrors below a folder, as one process uses them."""

    def __init__(self, folder: str, git: Git, *, fetch_s: float = FETCH_S) -> None:
        self._folder = folder
        self._git = git
        self._fetch_s = fetch_s
        self._locks: dict[str, asyncio.Lock] = {}
        self._fresh: set[str] = set()
        """Those that this process has fetched."""
        self._found: dict[tuple[str, str], str] = {}
        """The commits of those, by what they were called."""

    async def find(self, source: str | None, base: str) -> Base:
        """The commit that a task starts from, in a mirror that has it. Raises NoSource."""
        where = None if source is None else _address(source)
        key = _EMPTY if where is None else hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        mirror = f"{self._folder}/{key}.git"
        url = None if source is None else shown(source)
        if (known := self._found.get((mirror, base))) is not None:
            return Base(mirror=mirror, commit=known, url=url)
        async with self._locks.setdefault(key, asyncio.Lock()), _held(f"{self._folder}/{key}.lock"):
            if where is None:
                await self._ensure_empty(mirror)
            commit = await self._look(mirror, base) if self._may_use(mirror, base) else None
            if commit is None and where is not None:
                commit = await self._refreshed(mirror, where, base)
        if commit is None:
            raise NoSource(f"there is no commit, tag or branch {visible(base)!r} in {visible(shown(source))}")
        self._found[mirror, base] = commit
        return Base(mirror=mirror, commit=commit, url=url)

    def _may_use(self, mirror: str, base: str) -> bool:
        """A hash means the same for ever; what a name means is asked of the source, once by each process."""
        return os.path.isdir(mirror) and (
            mirror in self._fresh or _HASH.fullmatch(base) is not None or mirror.endswith(f"/{_EMPTY}.git")
        )

    async def _refreshed(self, mirror: str, where: str, base: str) -> str | None:
        await self._fetch(mirror, where)
        self._fresh.add(mirror)
        if (commit := await self._look(mirror, base)) is not None:
            return commit
        if _HASH.fullmatch(base) is None:
            return None
        try:  # a commit that no branch leads to, such as that of a closed pull request
            await self._ask_source(mirror, where, base)
        except NoSource:
            return None
        return await self._look(mirror, base)

    async def _look(self, mirror: str, base: str) -> str | None:
        """The commit that a name means in a mirror."""
        if base.startswith("-") or "\0" in base:
            return None
        wanted = [f"refs/heads/{base}", f"refs/tags/{base}", base]
        if base.partition("~")[0].partition("^")[0] == "HEAD":  # the mirror has one of its own
            wanted = [_HEAD + base.removeprefix("HEAD")]
        for name in wanted:
            try:
                found = await self._git.run(
                    Repository(git_dir=mirror),
                    "rev-parse",
                    "--verify",
                    "--quiet",
                    "--end-of-options",
                    f"{name}^{{commit}}",
                )
            except GitFailed:
                continue
            return found.decode().strip()
        return None

    # ---- fetching ------------------------------------------------------------------------------

    async def _fetch(self, mirror: str, where: str) -> None:
        if os.path.isdir(mirror):
            _remove_locks(mirror)
            await self._fetch_into(mirror, where)
            return
        if not where.partition("://")[1] and not os.path.exists(where):
            raise NoSource(f"there is no repository {visible(where)}")
        new = f"{mirror}.new"
        for kind in ("sha1", "sha256"):
            shutil.rmtree(new, ignore_errors=True)
            await self._git.run(None, "init", "-q", "--bare", "--template=", f"--object-format={kind}", new)
            try:
                await self._fetch_into(new, where)
            except NoSource as error:
                shutil.rmtree(new, ignore_errors=True)
                if kind == "sha1" and "mismatched algorithms" in str(error):
                    continue
                raise
            break
        os.rename(new, mirror)

    async def _fetch_into(self, mirror: str, where: str) -> None:
        try:
            await self._ask_source(mirror, where, *_REFS, f"+HEAD:{_HEAD}")
        except NoSource as error:
            if "find remote ref HEAD" not in str(error):
                raise
            # A bundle may be without one, and a repository without a commit has none.
            await self._ask_source(mirror, where, *_REFS)
        await self._git.run(Repository(git_dir=mirror), "pack-refs", "--all")

    async def _ask_source(self, mirror: str, where: str, *refs: str) -> None:
        words = ("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--update-head-ok")
        words = (*words, "--update-shallow", "--", where)  # a source may have no more than its last commits
        try:
            await self._git.run(Repository(git_dir=mirror), *words, *refs, timeout_s=self._fetch_s)
        except GitFailed as error:
            said = str(error).replace(where, shown(where))
            may_pass = error.timed_out or any(word in error.said for word in _SLOW)
            raise NoSource(f"{visible(shown(where))} cannot be fetched: {visible(said)}", may_pass=may_pass) from error

    async def _ensure_empty(self, mirror: str) -> None:
        """The repository of tasks that name none: one commit without a file, the same on every node."""
        if os.path.isdir(mirror):
            return
        new = f"{mirror}.new"
        shutil.rmtree(new, ignore_errors=True)
        await self._git.run(None, "init", "-q", "--bare", "--template=", new)
        here = Repository(git_dir=new)
        tree = (await self._git.run(here, "mktree")).decode().strip()
        made = await self._git.run(here, "commit-tree", "-m", "An empty repository", tree, more=_EMPTY_COMMIT)
        for ref in (_HEAD, "refs/heads/main"):
            await self._git.run(here, "update-ref", ref, made.decode().strip())
        await self._git.run(here, "pack-refs", "--all")
        os.rename(new, mirror)


def _address(source: str) -> str:
    """What git is told. Raises NoSource for a transport that is not allowed."""
    scheme, separator, _ = source.partition("://")
    if separator:
        if scheme not in _SCHEMES:
            raise NoSource(f"{visible(shown(source))}: {visible(scheme)} is not a transport that is allowed")
        return source
    if not os.path.isabs(source):
        raise NoSource(f"{visible(source)} is neither an absolute path nor an https, ssh or file address")
    return os.path.realpath(source)


def shown(source: str | None) -> str:
    """A source as people and the agent may see it."""
    if source is None:
        return "the empty repository"
    stripped = strip_credentials(source)
    if (parts := urlsplit(stripped)).scheme in ("http", "https") and parts.query:
        return stripped.partition("?")[0]
    return stripped


def _remove_locks(mirror: str) -> None:
    """Of a fetch that was killed: only whoever holds our lock is here, so no git can be alive that made them."""
    for name in ("packed-refs.lock", "shallow.lock", "config.lock", "HEAD.lock"):
        try:
            os.unlink(f"{mirror}/{name}")
        except FileNotFoundError:
            pass
    for folder, _, files in os.walk(f"{mirror}/refs"):
        for name in files:
            if name.endswith(".lock"):
                os.unlink(f"{folder}/{name}")


@asynccontextmanager
async def _held(path: str) -> AsyncGenerator[None, None]:
    """Nobody else on this node is in here. The kernel lets go of it when the process ends, however that is."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)
