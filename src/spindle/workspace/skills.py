"""Skills: folders with a SKILL.md that the model can be pointed at. Finds, checks and selects; does not render."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from spindle.workspace.files import LeftOut, ProjectFiles, decoded, folders_between, revealed
from spindle.workspace.git import find_root

if TYPE_CHECKING:
    from spindle.workspace.skill_cache import SkillCache

Scope = Literal["repo", "user", "system", "admin"]

SKILL_FILE = "SKILL.md"
MAX_DEPTH = 6
MAX_FOLDERS = 2000
MAX_NAME = 64
MAX_DESCRIPTION = 1024
ADMIN_ROOT = "/etc/codex/skills"
MAX_SKILL_BYTES = 1 << 20
_FRONT_MATTER_BYTES = 1 << 16
_SCOPE_ORDER = ("repo", "user", "system", "admin")
_INTERFACE_FIELDS = (
    "display_name",
    "short_description",
    "icon_small",
    "icon_large",
    "brand_color",
    "default_prompt",
)
_DEPENDENCY_FIELDS = ("type", "value", "description", "transport", "command", "url")

# Names of everyday environment variables: `$HOME` in a prompt is not a skill.
_NOT_MENTIONS = frozenset(
    ("PATH", "HOME", "USER", "SHELL", "PWD", "TMPDIR", "TEMP", "TMP", "LANG", "TERM", "XDG_CONFIG_HOME")
)
_MENTION = r"\[\$(?P<linked>[A-Za-z0-9_-]+)\]\(\s*(?P<target>[^)]+?)\s*\)|\$(?P<plain>[A-Za-z0-9_-]+)"


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One usable skill, as its front matter describes it."""

    name: str
    description: str
    path: str
    """Canonical path of the SKILL.md."""
    scope: Scope
    short_description: str | None = None
    interface: dict[str, str] | None = None
    dependencies: dict[str, list[dict[str, str]]] | None = None
    allow_implicit: bool = True
    """False: only an explicit mention uses it."""
    enabled: bool = True


class SkillError(msgspec.Struct, frozen=True, kw_only=True):
    """A SKILL.md that cannot be used, and why."""

    path: str
    message: str


class SkillSet(msgspec.Struct, frozen=True, kw_only=True):
    """All skills around a folder, in their fixed order, and those that are broken."""

    skills: list[Skill] = msgspec.field(default_factory=list)
    errors: list[SkillError] = msgspec.field(default_factory=list)

    @property
    def enabled(self) -> list[Skill]:
        return [skill for skill in self.skills if skill.enabled]


class _BadSkill(ValueError):
    """The front matter cannot be used; the message says why."""


def load_skills(
    cwd: str,
    home: str,
    *,
    root_markers: Sequence[str] = (".git",),
    disabled: Collection[str] = (),
    user_home: str | None = None,
    more_roots: Sequence[tuple[str, Scope]] = ((ADMIN_ROOT, "admin"),),
    files: ProjectFiles | None = None,
    fresh: bool = False,
) -> SkillSet:
    """Scan every root, `more_roots` last. `disabled` holds paths of a SKILL.md or its folder, or plain skill names.

    `files` says what of the project may be read; without it, only what is the project's own. A file that is the same
    as at the last time is not read again, unless everything shall be `fresh`.
    """
    skills: dict[str, Skill] = {}
    errors: dict[str, SkillError] = {}
    off = {os.path.realpath(entry) if entry.startswith("/") else entry for entry in disabled}
    cache: SkillCache | None = None
    own = ProjectFiles()
    of_project = files or project_files(cwd, home, root_markers=root_markers, is_trusted=False)
    for root, scope in (*_roots(cwd, home, root_markers, user_home), *more_roots):
        for path in _scan(root, follow_links=scope != "system"):
            real = os.path.realpath(path)
            if real in skills or real in errors:
                continue
            allowed = of_project if scope == "repo" else own
            if (problem := _why_left_out(real, allowed)) is not None:
                errors[path] = SkillError(path=path, message=problem)
                continue
            if cache is None:
                from spindle.workspace.skill_cache import SkillCache  # only those who have skills need it

                cache = SkillCache(home)
            found = _known(real, cache, allowed, fresh=fresh)
            if isinstance(found, str):
                if scope != "system":
                    errors[real] = SkillError(path=real, message=found)
                continue
            is_off = bool(off) and not off.isdisjoint((real, os.path.dirname(real), found.name))
            skills[real] = msgspec.structs.replace(found, scope=scope, enabled=not is_off)
    if cache is not None:
        cache.save()
    ordered = sorted(skills.values(), key=lambda skill: (_SCOPE_ORDER.index(skill.scope), skill.name, skill.path))
    return SkillSet(skills=ordered, errors=[errors[path] for path in sorted(errors)])


def with_admin(roots: Sequence[str]) -> list[tuple[str, Scope]]:
    """Roots that the person names, after the administrator's; for `load_skills`."""
    return [(ADMIN_ROOT, "admin"), *((root, "user") for root in roots)]


def skill_roots(cwd: str, home: str, root_markers: Sequence[str]) -> list[str]:
    """The folders that may hold skills, whether they are there or not."""
    return [*(root for root, _ in _roots(cwd, home, root_markers, None)), ADMIN_ROOT]


def project_files(
    cwd: str,
    home: str,
    *,
    root_markers: Sequence[str] = (".git",),
    is_trusted: bool,
    may_read: Callable[[str], bool] = lambda path: True,
) -> ProjectFiles:
    """What of the project around `cwd` may be read; if it is not trusted, nothing that links in it lead to."""
    root = None if is_trusted else find_root(cwd, root_markers) or os.path.realpath(cwd)
    return ProjectFiles(root=root, homes=(os.path.realpath(home),), may_read=may_read)


def skill_text(skill: Skill, files: ProjectFiles, warnings: list[str]) -> str:
    """The whole SKILL.md, as it is put before the model when the skill is selected. May raise OSError.

    `files` says what of the project may be read, now: the file may be another one than when the list was made.
    """
    allowed = files if skill.scope == "repo" else ProjectFiles()
    content = allowed.read(skill.path, MAX_SKILL_BYTES)
    text = decoded(skill.path, content, warnings, is_cut=len(content) == MAX_SKILL_BYTES)
    return revealed(skill.path, text, warnings)


def select_skills(items: str | Sequence[Mapping[str, Any]], skillset: SkillSet) -> list[Skill]:
    """The enabled skills that the text or input items mention, each once, in the order of the list."""
    skills = skillset.enabled
    if not skills:
        return []
    if isinstance(items, str):
        items = [{"type": "text", "text": items}]
    names: set[str] = set()
    paths: set[str] = set()
    for item in items:
        if item.get("type") == "skill":
            _note(item.get("name"), item.get("path"), names, paths)
        elif isinstance(text := item.get("text"), str) and "$" in text:
            for found in re.finditer(_MENTION, text):
                if (name := found["linked"]) is not None:
                    _note(name, found["target"].removeprefix("skill://"), names, paths)
                elif (plain := found["plain"]).upper() not in _NOT_MENTIONS:
                    names.add(plain)
    unique = {name for name in names if sum(skill.name == name for skill in skills) == 1}
    return [skill for skill in skills if skill.path in paths or skill.name in unique]


def _roots(
    cwd: str,
    home: str,
    root_markers: Sequence[str],
    user_home: str | None,
) -> Iterator[tuple[str, Scope]]:
    here = os.path.realpath(cwd)
    folders = folders_between(find_root(here, root_markers) or here, here)
    own_home = os.path.realpath(home)
    for folder in reversed(folders):
        if os.path.realpath(f"{folder}/.codex") != own_home:
            yield f"{folder}/.codex/skills", "repo"
    yield f"{home}/skills", "user"
    yield f"{home}/skills/.system", "system"
    person = user_home or os.path.expanduser("~")
    for folder in folders:
        if folder != person:
            yield f"{folder}/.agents/skills", "repo"
    yield f"{person}/.agents/skills", "user"


def _scan(root: str, *, follow_links: bool) -> Iterator[str]:
    """Paths of the SKILL.md files below `root`, breadth first. Loops and huge trees end at the limits."""
    level = [root]
    seen: set[tuple[int, int]] = set()
    visited = 0
    for _ in range(MAX_DEPTH + 1):
        below: list[str] = []
        for folder in level:
            if visited >= MAX_FOLDERS:
                return
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
                status = os.stat(folder)
            except OSError:
                continue
            visited += 1
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            for entry in found:
                try:
                    if entry.name == SKILL_FILE and entry.is_file():
                        yield entry.path
                    elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=follow_links):
                        below.append(entry.path)
                except OSError:  # a link that points at itself
                    continue
        level = below


def _why_left_out(path: str, files: ProjectFiles) -> str | None:
    """What keeps a file from being read that is there; what else is wrong with it shows when it is read."""
    try:
        files.read(path, 0)
    except LeftOut as error:
        return f"left out: {error.strerror}"
    except OSError:
        pass
    return None


def _known(path: str, cache: SkillCache, files: ProjectFiles, *, fresh: bool) -> Skill | str:
    """The skill, or what is wrong with it: as it is remembered, or else as it is read now."""
    from spindle.workspace.skill_cache import stamp_of  # only those who have skills need it

    stamp = stamp_of(path, _interface_file(path))
    if not fresh and (said := cache.get(path, stamp)) is not None:
        try:
            return msgspec.json.decode(said, type=Skill | str)
        except msgspec.DecodeError:
            pass  # somebody edited the cache
    try:
        found = _read_skill(path, files)
    except _BadSkill as error:
        found = str(error)
    except OSError as error:
        return error.strerror or str(error)  # may be over the next time
    cache.put(path, stamp, found)
    return found


def _interface_file(path: str) -> str:
    return f"{os.path.dirname(path)}/agents/openai.yaml"


def _read_skill(path: str, files: ProjectFiles) -> Skill:
    fields = _front_matter(files.read(path, _FRONT_MATTER_BYTES + 1))
    metadata = fields.get("metadata")
    short = metadata.get("short-description") if isinstance(metadata, dict) else None
    extra = _read_interface(_interface_file(path), files)
    return Skill(
        name=_text(fields.get("name"), "name", MAX_NAME),
        description=_text(fields.get("description"), "description", MAX_DESCRIPTION),
        short_description=_text(short, "metadata.short-description", MAX_DESCRIPTION) if short else None,
        path=path,
        scope="user",
        interface=extra.interface,
        dependencies=extra.dependencies,
        allow_implicit=extra.allow_implicit,
    )


def _front_matter(content: bytes) -> dict[str, Any]:
    text = content.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        raise _BadSkill("missing YAML front matter delimited by ---")
    end = next((index for index in range(1, len(lines)) if lines[index].rstrip() == "---"), None)
    if end is None:
        raise _BadSkill("missing YAML front matter delimited by ---")
    from spindle.workspace.yaml_text import YamlError, parse_yaml  # loads for long, and only new skills need it

    try:
        fields = parse_yaml("\n".join(lines[1:end]), first_line=2)
    except YamlError as error:
        raise _BadSkill(f"invalid YAML: {error}") from error
    if not isinstance(fields, dict):
        raise _BadSkill("invalid YAML: the front matter must be a mapping")
    return fields


def _text(value: Any, field: str, limit: int) -> str:
    """One line of text: runs of white space become one blank, control characters are refused."""
    if value is None or value == "":
        raise _BadSkill(f"missing field `{field}`")
    if not isinstance(value, str):
        raise _BadSkill(f"invalid {field}: must be text")
    text = " ".join(value.split())
    if not text:
        raise _BadSkill(f"missing field `{field}`")
    if len(text) > limit:
        raise _BadSkill(f"invalid {field}: exceeds maximum length of {limit} characters")
    if any(char < " " or char == "\x7f" for char in text):
        raise _BadSkill(f"invalid {field}: contains control characters")
    return text


class _Interface(msgspec.Struct, frozen=True, kw_only=True):
    interface: dict[str, str] | None = None
    dependencies: dict[str, list[dict[str, str]]] | None = None
    allow_implicit: bool = True


def _read_interface(path: str, files: ProjectFiles) -> _Interface:
    """`agents/openai.yaml` beside the skill; whatever is wrong with it is ignored."""
    from spindle.workspace.yaml_text import parse_yaml  # loads for long, and only new skills need it

    try:
        data = parse_yaml(files.read(path, _FRONT_MATTER_BYTES).decode("utf-8"))
    except (OSError, ValueError):
        return _Interface()
    if not isinstance(data, dict):
        return _Interface()
    tools = _mapping(data.get("dependencies")).get("tools")
    known = [_strings(tool, _DEPENDENCY_FIELDS) for tool in tools] if isinstance(tools, list) else []
    known = [tool for tool in known if "type" in tool and "value" in tool]
    return _Interface(
        interface=_strings(data.get("interface"), _INTERFACE_FIELDS) or None,
        dependencies={"tools": known} if known else None,
        allow_implicit=_mapping(data.get("policy")).get("allow_implicit_invocation") not in ("false", "False", "FALSE"),
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _strings(value: Any, fields: Sequence[str]) -> dict[str, str]:
    found = {field: _mapping(value).get(field) for field in fields}
    cleaned = {field: " ".join(text.split()) for field, text in found.items() if isinstance(text, str)}
    return {field: text for field, text in cleaned.items() if text and len(text) <= MAX_DESCRIPTION}


def _note(name: Any, path: Any, names: set[str], paths: set[str]) -> None:
    """A path decides alone; without one the name does."""
    if isinstance(path, str) and path:
        try:
            paths.add(os.path.realpath(path))
        except ValueError:  # a NUL in the path
            return
    elif isinstance(name, str):
        names.add(name)
