"""The task list: where it comes from, and one task after the other, checked. Never all of them in memory.

A list is a file of JSON lines, stdin, or repositories: a folder of them, or a pattern that matches them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from spindle.config.kinds import resolve_path
from spindle.errors import UsageError
from spindle.fleet.exchange import Task
from spindle.fleet.task_rules import ID, ListedTask, TaskRefused, check, parse
from spindle.protocol.quote import visible

_MAX_PROMPT_BYTES = 1 << 20


class TaskSource(msgspec.Struct, frozen=True, kw_only=True):
    """What was given as TASKS, with what tasks without a prompt are asked."""

    given: str
    prompt: str | None = None
    cwd: str

    def tasks(self) -> Iterator[Task]:
        """Each task of the list. Raises UsageError, naming the file and the line, at the first that cannot be used."""
        known: dict[str, str] = {}
        found = False
        for place, listed in self._listed():
            found = True
            try:
                task = check(parse(listed) if isinstance(listed, bytes) else listed, self.prompt, self.cwd)
                if (before := known.setdefault(task.id.lower(), place)) != place:
                    raise TaskRefused(
                        f"the id {task.id!r} is there already, in {before} (upper and lower case count the same)"
                    )
            except TaskRefused as error:
                why = visible(str(error)).rstrip(".")
                if isinstance(listed, ListedTask) and not ID.fullmatch(listed.id):
                    why += "; rename the folder, or write a list that gives it another id"
                end = "" if why.endswith("?") else "."
                raise UsageError(f"{self._name}, {place}: {why}{end} Nothing was started") from error
            yield task
        if not found:
            what = (
                "task" if self.given == "-" or os.path.isfile(resolve_path(self.given, self.cwd)) else "git repository"
            )
            raise UsageError(f"{self._name}: there is no {what} in it")

    @property
    def _name(self) -> str:
        return "stdin" if self.given == "-" else visible(self.given)

    def _listed(self) -> Iterator[tuple[str, bytes | ListedTask]]:
        """Each entry, and what to call its place."""
        if self.given == "-":
            yield from _lines(sys.stdin.buffer)
        elif os.path.isdir(path := resolve_path(self.given, self.cwd)):
            yield from _repositories([path] if is_repository(path) else _below(path))
        elif os.path.exists(path):
            try:
                with open(path, "rb") as file:
                    yield from _lines(file)
            except OSError as error:
                raise UsageError(f"{self._name} cannot be read: {error.strerror}") from error
        elif any(char in self.given for char in "*?["):
            from glob import glob  # only for a pattern

            yield from _repositories(sorted(glob(self.given, root_dir=self.cwd)), self.cwd)
        else:
            raise UsageError(f"{self._name}: there is no such file or folder")


def read_prompt(given: str | None, cwd: str) -> str | None:
    """What `--prompt` says: a text, or `@FILE`."""
    if given is None or not given.startswith("@"):
        text = given
    else:
        try:
            with open(resolve_path(given[1:], cwd), "rb") as file:
                data = file.read(_MAX_PROMPT_BYTES + 1)
            text = data.decode()
        except (OSError, ValueError) as error:
            raise UsageError(f"--prompt: {visible(given[1:])} cannot be read: {error}") from error
        if len(data) > _MAX_PROMPT_BYTES:
            raise UsageError(f"--prompt: {visible(given[1:])} is larger than {_MAX_PROMPT_BYTES} bytes")
    if text is not None and not text.strip():
        raise UsageError("--prompt is empty")
    return text


def is_repository(path: str) -> bool:
    """A work tree, a bare repository, or a bundle file."""
    if os.path.isfile(path):
        return path.endswith(".bundle")
    names = ("HEAD", "objects", "refs")
    return os.path.exists(f"{path}/.git") or all(os.path.exists(f"{path}/{name}") for name in names)


def _lines(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(file, 1):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if text.strip():
            yield f"line {number}", text


def _below(folder: str) -> list[str]:
    try:
        return sorted(entry.path for entry in os.scandir(folder))
    except OSError as error:
        raise UsageError(f"{visible(folder)} cannot be read: {error.strerror}") from error


def _repositories(paths: Iterable[str], cwd: str = "/") -> Iterator[tuple[str, ListedTask]]:
    """A task for each of these that is a repository; the others are passed over."""
    for path in paths:
        full = resolve_path(path, cwd)
        if is_repository(full):
            name = os.path.basename(full)
            yield (
                f"repository {visible(full)}",
                ListedTask(id=name.removesuffix(".bundle").removesuffix(".git"), repo=full),
            )
