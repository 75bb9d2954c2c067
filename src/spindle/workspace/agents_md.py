"""AGENTS.md: what the user and the project want the model to know. Finds and reads; rendering is the prompt's job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

import msgspec

from spindle.workspace.files import (
    LeftOut,
    ProjectFiles,
    decoded,
    folders_between,
    is_regular,
    read_own,
    revealed,
    shown,
)
from spindle.workspace.git import find_root

PROJECT_SEPARATOR = "\n\n--- project-doc ---\n\n"
_NAMES = ("AGENTS.override.md", "AGENTS.md")
# The user's own file has no budget; this only keeps a mistake from filling the memory.
_GLOBAL_SANITY_BYTES = 4 << 20


class ProjectDocs(msgspec.Struct, frozen=True, kw_only=True):
    """The joined text, the files it came from in order, and what the user should hear about them."""

    text: str | None = None
    sources: list[str] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)


def load_project_docs(
    cwd: str,
    home: str,
    *,
    max_bytes: int = 32768,
    fallback_names: Sequence[str] = (),
    root_markers: Sequence[str] = (".git",),
    include_project: bool = True,
    is_trusted: bool = True,
    may_read: Callable[[str], bool] = lambda path: True,
) -> ProjectDocs:
    """The global file of `home`, then one file per folder from the project root down to `cwd`, within `max_bytes`.

    In a project that is not trusted, a link leads nowhere but into the project: nobody has looked at where it leads.
    """
    sources: list[str] = []
    warnings: list[str] = []
    parts: list[str] = []
    if (own := _read_global(home, sources, warnings)) is not None:
        parts.append(own)
    if include_project and max_bytes > 0:
        paths = _project_files(cwd, [*_NAMES, *fallback_names], root_markers)
        root = None if is_trusted else find_root(cwd, root_markers) or os.path.realpath(cwd)
        files = ProjectFiles(root=root, homes=(os.path.realpath(home),), may_read=may_read)
        if texts := _read_within(files, paths, max_bytes, sources, warnings):
            parts.append("\n\n".join(texts))
    return ProjectDocs(text=PROJECT_SEPARATOR.join(parts) or None, sources=sources, warnings=warnings)


def load_nested_docs(
    folder: str,
    cwd: str,
    home: str,
    *,
    max_bytes: int = 32768,
    fallback_names: Sequence[str] = (),
    root_markers: Sequence[str] = (".git",),
    may_read: Callable[[str], bool] = lambda path: True,
) -> list[tuple[str, ProjectDocs]]:
    """The documents of the folders that lead from the project to `folder`, without those that apply to `cwd` anyway.

    Each with its folder, outermost first. Folders outside of the project have none, and a link that leads there is left
    out: a command could have made it a moment ago.
    """
    here, there = os.path.realpath(cwd), os.path.realpath(folder)
    root = find_root(here, root_markers) or here
    if max_bytes <= 0 or (there != root and not there.startswith(root.rstrip("/") + "/")):
        return []
    names = [*_NAMES, *fallback_names]
    known = set(_project_files(here, names, root_markers))
    files = ProjectFiles(root=root, homes=(os.path.realpath(home),), may_read=may_read)
    found: list[tuple[str, ProjectDocs]] = []
    for path in _files_of(folders_between(root, there), names):
        if path in known:
            continue
        sources: list[str] = []
        warnings: list[str] = []
        texts = _read_within(files, [path], max_bytes, sources, warnings)
        if texts or warnings:
            text = texts[0] if texts else None
            found.append((os.path.dirname(path), ProjectDocs(text=text, sources=sources, warnings=warnings)))
    return found


def _read_global(home: str, sources: list[str], warnings: list[str]) -> str | None:
    for name in _NAMES:
        path = f"{home}/{name}"
        if not is_regular(path):
            continue
        try:
            content = read_own(path, _GLOBAL_SANITY_BYTES + 1)
        except LeftOut as error:
            warnings.append(f"{shown(path)} is left out: {error.strerror}")
            continue
        except OSError as error:
            warnings.append(_unreadable(path, error))
            continue
        if len(content) > _GLOBAL_SANITY_BYTES:
            warnings.append(f"{shown(path)} was cut after {_GLOBAL_SANITY_BYTES >> 20} MiB: every request carries it")
        is_cut = len(content) > _GLOBAL_SANITY_BYTES
        text = decoded(path, content[:_GLOBAL_SANITY_BYTES], warnings, is_cut=is_cut).strip()
        if text:
            sources.append(path)
            return revealed(path, text, warnings)
    return None


def _project_files(cwd: str, names: Sequence[str], root_markers: Sequence[str]) -> list[str]:
    """The first existing file of each folder, outermost folder first."""
    here = os.path.realpath(cwd)
    return _files_of(folders_between(find_root(here, root_markers) or here, here), names)


def _files_of(folders: Iterable[str], names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for folder in folders:
        for name in names:
            if name and is_regular(path := f"{folder}/{name}"):
                found.append(path)
                break
    return found


def _read_within(
    files: ProjectFiles, paths: Sequence[str], budget: int, sources: list[str], warnings: list[str]
) -> list[str]:
    """Texts in order until the byte budget is used up; blank and unreadable files cost nothing."""
    texts: list[str] = []
    left = budget
    for index, path in enumerate(paths):
        if left <= 0:
            ignored = ", ".join(map(shown, paths[index:]))
            warnings.append(f"Project documents exceed project_doc_max_bytes ({budget}); not read: {ignored}")
            break
        try:
            content = files.read(path, left + 1)
        except LeftOut as error:
            warnings.append(f"{shown(path)} is left out: {error.strerror}")
            continue
        except OSError as error:
            warnings.append(_unreadable(path, error))
            continue
        text = decoded(path, content[:left], warnings, is_cut=len(content) > left)
        if not text.strip():
            continue
        if len(content) > left:
            warnings.append(f"{shown(path)} was cut after {left} bytes: project_doc_max_bytes is {budget}")
        texts.append(revealed(path, text, warnings))
        sources.append(path)
        left -= len(content[:left])
    return texts


def _unreadable(path: str, error: OSError) -> str:
    return f"{shown(path)} cannot be read and is left out: {error.strerror or error}"
