"""What the model is told before and with each input: what changed in its surroundings, the input, selected skills.

Project documents and skills are read once per folder. A message is appended only when something differs from what
the model was last told, also across resume and fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from spindle.core.live_thread import LiveThread
from spindle.policy.sandbox import Fence, boundary_of, writable_roots
from spindle.prompt.document_messages import (
    agents_message,
    render_skills,
    skill_message,
    user_instructions,
)
from spindle.prompt.permissions import PROTECTED
from spindle.prompt.snapshot import (
    ContextSnapshot,
    Prefixes,
    context_changes,
    initial_context,
    snapshot_from_turn_context,
    turn_context_payload,
)
from spindle.protocol.events import (
    ExecCommandBegin,
    Msg,
    PatchApplyBegin,
    UserMessage,
    Warning,
)
from spindle.protocol.items import Item
from spindle.protocol.settings import ThreadSettings
from spindle.tools.images import input_parts
from spindle.workspace.agents_md import load_nested_docs, load_project_docs
from spindle.workspace.files import ProjectFiles
from spindle.workspace.git import find_root
from spindle.workspace.skills import SkillSet, load_skills, project_files, select_skills, skill_text, with_admin

Emit = Callable[[Msg], None]


class BriefingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The user's choices about what is told. Defaults as in the configuration's documentation."""

    home: str
    shell_name: str
    environment: Mapping[str, str]
    doc_max_bytes: int = 32_768
    doc_fallback_names: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = (".git",)
    read_project_docs: bool = True
    trusts_project: bool = True
    fence: Fence = Fence()
    include_permissions: bool = True
    include_environment: bool = True
    include_skills: bool = True
    disabled_skills: tuple[str, ...] = ()
    extra_skill_roots: tuple[str, ...] = ()
    developer_instructions: str | None = None
    user_instructions: str | None = None
    """Given by the client instead of AGENTS.md."""
    extras: tuple[str, ...] = ()
    """Extra lines of the environment message: "date", "timezone"."""
    notes: tuple[Callable[[], str | None], ...] = ()
    """Notes of models, read with the documents of a folder."""
    nested_docs: bool = True
    """Tell the documents of a folder when work first goes there."""
    bypass: bool = False
    """A flag took away sandbox and approvals; recorded with each turn for which that still holds."""
    protected: tuple[str, ...] = PROTECTED
    """What stays read-only below every writable root."""


class Briefing:
    """Remembers what one thread was last told about its surroundings, and what was read for its folder."""

    def __init__(self, options: BriefingOptions, turn_context: dict[str, Any] | None = None) -> None:
        """`turn_context`: the last one recorded, when the thread is not new."""
        self._options = options
        self._told = snapshot_from_turn_context(turn_context) if turn_context else None
        self._skills: dict[str, SkillSet] = {}
        self._docs: dict[str, tuple[str | None, str | None, tuple[str, ...]]] = {}
        self._warned: set[str] = set()
        self._visited: dict[str, None] = {}
        """Folders where something was run or changed since the last request."""
        self._nested: set[str] = set()
        """Folders that were looked at for documents of their own."""

    def forget_since(self, turn_context: dict[str, Any] | None) -> None:
        """The thread was cut back: what was told after that point counts as not told."""
        self._told = snapshot_from_turn_context(turn_context) if turn_context else None

    def before_input(
        self, thread: LiveThread, settings: ThreadSettings, emit: Emit, approved_prefixes: Prefixes | None = None
    ) -> ContextSnapshot:
        """Append a message for each thing that has changed since the thread was last told about it."""
        snapshot = self._snapshot(settings, thread, emit, approved_prefixes)
        told = self._told
        if told is not None and told.model is not None:
            told = msgspec.structs.replace(told, model_text=thread.text_for(told.model))
        thread.append_items(initial_context(snapshot) if told is None else context_changes(told, snapshot))
        self._told = snapshot
        return snapshot

    def anew(self, thread: LiveThread, settings: ThreadSettings, emit: Emit) -> ContextSnapshot:
        """What a thread that begins anew is to be told of its surroundings, with the documents read again."""
        self._docs.pop(settings.cwd, None)
        told = self._told
        return self._snapshot(settings, thread, emit, told.approved_prefixes if told is not None else None)

    def was_told(self, snapshot: ContextSnapshot) -> None:
        """The thread now begins with all of this; whatever it was told before is gone."""
        self._told = snapshot
        self._nested.clear()

    def notice(self, msg: Msg) -> None:
        """Look where the work goes."""
        match msg:
            case ExecCommandBegin(cwd=cwd):
                self._visited[cwd] = None
            case PatchApplyBegin(changes=changes):
                self._visited.update(dict.fromkeys(map(os.path.dirname, changes)))
            case _:
                pass

    def append_nested(self, thread: LiveThread, settings: ThreadSettings, emit: Emit) -> None:
        """Append the documents of folders to which the work has moved and which have not been told yet."""
        visited, self._visited = self._visited, {}
        options = self._options
        if not options.nested_docs or not options.read_project_docs or options.user_instructions is not None:
            return
        for folder in visited:
            if folder in self._nested or folder == settings.cwd:
                continue
            self._nested.add(folder)
            for owner, docs in load_nested_docs(
                folder,
                settings.cwd,
                options.home,
                max_bytes=options.doc_max_bytes,
                fallback_names=options.doc_fallback_names,
                root_markers=options.root_markers,
                may_read=self._may_read(settings),
            ):
                if docs.text is None:
                    for text in docs.warnings:
                        emit(Warning(message=text))
                    continue
                message = agents_message(owner, docs.text)
                if all(entry.item != message for entry in thread.history.entries):
                    for text in docs.warnings:
                        emit(Warning(message=text))
                    thread.history.append_item(message)

    def read_input(
        self, items: Sequence[dict[str, Any]], settings: ThreadSettings, emit: Emit
    ) -> tuple[Item, UserMessage]:
        """A person's input as the model is sent it, and as people see it."""
        made = input_parts(items, settings.cwd, self._may_read(settings))
        for text in made.warnings:
            emit(Warning(message=text))
        return {"type": "message", "role": "user", "content": made.parts}, _user_message(items)

    def append_skills(
        self, thread: LiveThread, items: Sequence[dict[str, Any]], settings: ThreadSettings, emit: Emit
    ) -> None:
        """The whole text of every skill that an input selects."""
        files = self._files(settings, settings.cwd)
        for skill in select_skills(items, self.skills(settings.cwd, settings)):
            notes: list[str] = []
            try:
                thread.history.append_item(skill_message(skill.name, skill.path, skill_text(skill, files, notes)))
            except (OSError, ValueError) as error:
                notes.append(f"skill {skill.name} cannot be read: {error}")
            for text in notes:
                emit(Warning(message=text))

    def turn_context(
        self,
        snapshot: ContextSnapshot,
        thread: LiveThread,
        settings: ThreadSettings,
        turn_id: str,
        output_schema: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """The turn's line in the record."""
        payload = turn_context_payload(
            snapshot,
            turn_id=turn_id,
            effort=settings.effort,
            summary=settings.summary,
            output_schema=output_schema,
            truncation=(thread.truncation.mode, thread.truncation.limit),
        )
        if settings.model_provider != thread.history.meta.get("model_provider"):
            payload["spindle"] = {**payload.get("spindle", {}), "model_provider": settings.model_provider}
        if self._options.bypass and settings.sandbox.is_full_access and settings.approval_policy == "never":
            payload["spindle"] = {**payload.get("spindle", {}), "bypass": True}
        return payload

    def skills(self, cwd: str, settings: ThreadSettings, reload: bool = False) -> SkillSet:
        if reload or cwd not in self._skills:
            options = self._options
            self._skills[cwd] = load_skills(
                cwd,
                options.home,
                root_markers=options.root_markers,
                disabled=options.disabled_skills,
                files=self._files(settings, cwd),
                more_roots=with_admin(options.extra_skill_roots),
                fresh=reload,
            )
        return self._skills[cwd]

    def _snapshot(
        self, settings: ThreadSettings, thread: LiveThread, emit: Emit, approved_prefixes: Prefixes | None
    ) -> ContextSnapshot:
        options = self._options
        instructions, notes, warnings = self._instructions(settings, thread)
        for text in warnings:
            if text not in self._warned:
                self._warned.add(text)
                emit(Warning(message=text))
        date, zone = _today(thread.clock.now()) if options.extras else (None, None)
        return ContextSnapshot(
            cwd=settings.cwd,
            shell=options.shell_name,
            approval_policy=settings.approval_policy,
            granular=settings.granular,
            sandbox=settings.sandbox,
            roots=writable_roots(settings.sandbox, settings.cwd, options.environment),
            protected=options.protected,
            reads_everything=options.fence.read == "all",
            approved_prefixes=approved_prefixes,
            model=settings.model,
            model_text=thread.text_for(settings.model),
            personality=settings.personality,
            collaboration_mode=settings.collaboration_mode,
            developer_instructions=options.developer_instructions,
            user_instructions=instructions,
            notes=notes,
            project_root=find_root(settings.cwd, options.root_markers) or settings.cwd,
            current_date=date if "date" in options.extras else None,
            timezone=zone if "timezone" in options.extras else None,
            includes_permissions=options.include_permissions,
            includes_environment=options.include_environment,
        )

    def _may_read(self, settings: ThreadSettings) -> Callable[[str], bool]:
        """We read outside of the sandbox, so what is denied inside must not come in by a link to it."""
        options, drawn = self._options, None

        def may_read(path: str) -> bool:
            nonlocal drawn
            if drawn is None:  # drawn for the first file there is: most turns bring none
                drawn = boundary_of(
                    settings.sandbox, cwd=settings.cwd, env=options.environment, home=options.home, fence=options.fence
                )
            return drawn.may_read(path)

        return may_read

    def _files(self, settings: ThreadSettings, cwd: str) -> ProjectFiles:
        """What of the project around `cwd` may be read into the prompt."""
        options = self._options
        return project_files(
            cwd,
            options.home,
            root_markers=options.root_markers,
            is_trusted=options.trusts_project and cwd == settings.cwd,
            may_read=self._may_read(settings),
        )

    def _instructions(
        self, settings: ThreadSettings, thread: LiveThread
    ) -> tuple[str | None, str | None, tuple[str, ...]]:
        """Documents and skills for a folder, notes, and what to say about them; read once."""
        cwd = settings.cwd
        if cwd not in self._docs:
            options = self._options
            docs, warnings = options.user_instructions, []
            if docs is None:
                loaded = load_project_docs(
                    cwd,
                    options.home,
                    max_bytes=options.doc_max_bytes,
                    fallback_names=options.doc_fallback_names,
                    root_markers=options.root_markers,
                    include_project=options.read_project_docs,
                    is_trusted=options.trusts_project,
                    may_read=self._may_read(settings),
                )
                docs, warnings = loaded.text, list(loaded.warnings)
            skills = self.skills(cwd, settings).skills if options.include_skills else []
            section = render_skills(skills, thread.window_tokens) if options.include_skills else None
            if section is not None:
                warnings += section.warnings
            told = user_instructions(docs, section.text if section else None)
            notes = "\n".join(text for read in options.notes if (text := read()))
            mask = thread.secrets.mask_known
            self._docs[cwd] = (told and mask(told), mask(notes) if notes else None, tuple(warnings))
        return self._docs[cwd]


def _user_message(items: Sequence[dict[str, Any]]) -> UserMessage:
    """The input as people see it: the text, and which pictures came with it."""
    texts = [item["text"] for item in items if item.get("type") == "text" and isinstance(item.get("text"), str)]
    elements = [element for item in items for element in item.get("text_elements") or ()]
    mentions = [
        {"type": item["type"], "name": item.get("name"), "path": item.get("path")}
        for item in items
        if item.get("type") in ("skill", "mention")
    ]
    client_id = items[0].get("client_id") if items else None
    return UserMessage(
        message="\n".join(texts),
        images=[str(item.get("image_url") or item.get("url")) for item in items if item.get("type") == "image"],
        local_images=[str(item.get("path")) for item in items if item.get("type") == "local_image"],
        text_elements=elements,
        mentions=mentions or msgspec.UNSET,
        client_id=client_id if isinstance(client_id, str) else msgspec.UNSET,
    )


def _today(now: float) -> tuple[str, str]:
    """Date and zone of the machine. Only for those who asked for them: they make the prefix differ from day to day."""
    import time  # only for those who want the date

    local = time.localtime(now)
    return time.strftime("%Y-%m-%d", local), os.environ.get("TZ") or local.tm_zone
