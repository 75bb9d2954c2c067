"""The thread that is opened: its record, which is new, one to go on with, or a branch; and the model that goes on."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any

import msgspec

from spindle import __version__
from spindle.assembly.request import SessionRequest
from spindle.config.schema import Config
from spindle.core.access import BaseText, ModelAccess
from spindle.core.live_thread import LiveThread
from spindle.errors import ConfigError, ThreadError
from spindle.model.capabilities import CAPABILITY_FILE, CapabilityMemory
from spindle.model.catalog import Catalog, ModelInfo, unknown_model
from spindle.model.provider import Provider
from spindle.policy.rulebook import RuleBook
from spindle.policy.secrets import Secrets
from spindle.prompt.instructions import choose_instructions
from spindle.protocol.clock import iso_utc
from spindle.protocol.events import SessionConfigured
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import ThreadSettings
from spindle.thread.history import History
from spindle.thread.private_files import close_home
from spindle.thread.rollout import RolloutWriter
from spindle.thread.store import ThreadRef, ThreadStore
from spindle.tools.router import ToolSet
from spindle.workspace.git import git_facts


class SmallModels:
    """Which models have the profile of small ones, whatever the catalogue says: those that cannot call functions, and
    those that run in a process of ours."""

    def __init__(self, provider: Provider, memory: CapabilityMemory) -> None:
        self.provider = provider
        """Whose models are asked now."""
        self._memory = memory

    def __call__(self, info: ModelInfo) -> bool:
        provider = self.provider
        if provider.runs_inside:
            return True
        can = self._memory.of(provider, provider.wire_api, info.slug, info.capabilities)
        if not can.responses and provider.wire_api == "responses":
            can = self._memory.of(provider, "chat", info.slug, info.capabilities)
        return not can.tools


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A session on its way: what is known of it before its parts are made."""

    request: SessionRequest
    store: ThreadStore
    history: History
    thread_id: str
    catalog: Catalog
    memory: CapabilityMemory
    """What was learned about servers."""
    small: SmallModels
    model: str
    info: ModelInfo
    rules: RuleBook
    warnings: list[str]
    """Grows while the parts are made; people are told when the session is open."""
    tasks: list[asyncio.Task[None]] = []
    """What was begun for the session, and is its own once there is one."""

    @classmethod
    def of(cls, request: SessionRequest) -> Draft:
        """Raises a SpindleError when the thread cannot be opened."""
        config, order = request.config, request.order
        memory = CapabilityMemory(f"{config.own_home}/spindle/{CAPABILITY_FILE}", request.clock.now())
        small = SmallModels(config.provider, memory)
        catalog = _catalog(config).taking_for_small(small)
        store = ThreadStore(config.home, request.clock)
        history, thread_id, warnings = _open_history(request, store)
        try:
            model = _model(config, history, catalog)
        except ConfigError:
            history.close()
            raise
        info = catalog.find(model)
        if not info.known:
            warnings.append(unknown_model(model))
        if history.model not in (None, model):
            warnings.append(f"this thread was recorded with model {history.model} and goes on with {model}")
        return cls(
            request=request,
            store=store,
            history=history,
            thread_id=thread_id,
            catalog=catalog,
            memory=memory,
            small=small,
            model=model,
            info=info,
            # What was written since the person's session began is no rule for its sub-agents either.
            rules=RuleBook(config.home, config.rule_folders) if order is None else order.rules,
            warnings=warnings,
        )

    @property
    def is_foreign(self) -> bool:
        """The thread goes on from a record that this home did not write, or not as it stands there."""
        history = self.history
        return bool(history.records) and not self.store.sealer.holds(history.meta, history.last_turn_context)

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        """Without a session nobody could open the thread while this process lives: let go of its record."""
        if error is not None:
            self.history.close()
            for task in self.tasks:
                task.cancel()


def _catalog(config: Config) -> Catalog:
    """The catalogue, with the models that the user has added."""
    catalog = Catalog.load(config.model_catalog_json, config.spindle.models)
    if not os.path.isdir(f"{config.own_home}/spindle/models"):
        return catalog
    from spindle.local.catalogue import with_local_models  # only for those who have any

    return with_local_models(catalog, config)


def _model(config: Config, history: History, catalog: Catalog) -> str:
    """The configured model, else that of the thread, else the provider's first. Raises ConfigError."""
    if config.provider.runs_inside:
        from spindle.local.catalogue import local_model  # only for those who have any

        return local_model(config, history.model)
    return config.model or history.model or catalog.default_slug


def _open_history(request: SessionRequest, store: ThreadStore) -> tuple[History, str, list[str]]:
    """The history to go on with, its thread id, and what to say about it."""
    config, clock = request.config, request.clock
    ref = _recorded(request, store)
    if ref is None:
        thread_id = clock.uuid7()
        writer = None if request.ephemeral else RolloutWriter(store.new_path(thread_id), clock)
        return History(writer), thread_id, []
    if request.fork:
        who = {"cwd": config.cwd, "originator": request.originator, "source": request.source}
        meta, new_id = who | {"cli_version": __version__}, clock.uuid7()
        if request.ephemeral:
            data = store.fork_in_memory(ref, up_to=request.fork_at, new_id=new_id, meta=meta)
            return History.replay(data), data.thread_id, []
        ref = store.fork(ref, up_to=request.fork_at, new_id=new_id, meta=meta)
    elif request.ephemeral:
        data = store.read(ref)
        return History.replay(data), data.thread_id, data.notices()
    history, data = store.resume(ref)
    return history, data.thread_id, data.notices()


def _recorded(request: SessionRequest, store: ThreadStore) -> ThreadRef | None:
    """The recorded thread that is meant, or None for a new one."""
    if request.rollout_path is not None:
        return ThreadRef(id="", path=request.rollout_path)
    if request.thread is not None:
        ref = store.get(request.thread)
        if ref.archived and not request.fork:
            raise ThreadError(f"thread {ref.id} is archived; `spindle unarchive {ref.id}` brings it back")
        return ref
    if request.newest:
        config = request.config
        return store.latest(config.cwd, config.provider.id, include_other_cwds=request.any_folder)
    return None


def live_thread(
    draft: Draft, access: ModelAccess, settings: ThreadSettings, tools: ToolSet, secrets: Secrets
) -> LiveThread:
    """The thread, with the base text it was started with, or starts with now."""
    request, config, history = draft.request, draft.request.config, draft.history
    instructions = base_text(draft, settings)
    if not history.meta:
        history.append_meta(session_meta(request, draft.thread_id, instructions))
    is_for_all = bool(request.base_instructions or config.base_instructions)
    thread = LiveThread(
        draft.thread_id,
        history,
        access=access,
        model=draft.model,
        base=BaseText(text=instructions, is_for_all=is_for_all, personality=settings.personality),
        tools=tools,
        clock=request.clock,
        secrets=secrets,
    )
    restore_usage(thread)
    return thread


def base_text(draft: Draft, settings: ThreadSettings) -> str:
    """The base text the thread was started with, or starts with now."""
    request, config, history, info = draft.request, draft.request.config, draft.history, draft.info
    choose = partial(
        choose_instructions,
        explicit=request.base_instructions,
        file_text=config.base_instructions,
        template=info.model_messages.instructions_template if info.model_messages else None,
        template_variables=info.model_messages.instructions_variables if info.model_messages else None,
        model_text=info.base_instructions,
        family=info.family,
        personality=settings.personality,
    )
    instructions = choose(recorded=history.base_instructions)
    if draft.is_foreign and instructions != choose():
        draft.warnings.append(
            "the thread goes on with the base instructions that its file brings: Spindle with this home did not write "
            "them, and they are not those of the configuration"
        )
    return instructions


def session_meta(request: SessionRequest, thread_id: str, instructions: str) -> dict[str, Any]:
    """The first line of a rollout; both generations of the reference read it."""
    config = request.config
    meta: dict[str, Any] = {
        "id": thread_id,
        "session_id": thread_id,
        "timestamp": iso_utc(request.clock.now()),
        "cwd": config.cwd,
        "originator": request.originator,
        "cli_version": __version__,
        "source": request.source if request.order is None else request.order.source,
        "model_provider": config.provider.id,
        "base_instructions": {"text": instructions},
    }
    if (git := git_facts(config.cwd)) is not None:
        meta["git"] = git.to_wire()
    if request.dynamic_tools:
        meta["dynamic_tools"] = request.dynamic_tools
    return {**meta, "spindle": {"version": __version__}}


def restore_usage(thread: LiveThread) -> None:
    """A resumed thread goes on counting where it stopped. A fork has a cache of its own, which is empty."""
    history = thread.history
    if history.records and not history.meta.get("forked_from_id"):
        thread.cache.resumed_from = history.records[-1].timestamp
    info = history.token_info
    if info is None:
        return
    try:
        thread.note_restored(
            msgspec.convert(info.get("total_token_usage") or {}, TokenUsage),
            msgspec.convert(info.get("last_token_usage") or {}, TokenUsage),
        )
    except msgspec.ValidationError:
        pass  # written by somebody else in a shape of their own; counting starts anew


def first_event(thread: LiveThread, settings: ThreadSettings, *, replay: bool) -> SessionConfigured:
    """What the session says of itself when it begins."""
    history = thread.history
    return SessionConfigured(
        session_id=thread.thread_id,
        model=settings.model,
        model_provider_id=settings.model_provider,
        approval_policy=settings.approval_policy,
        sandbox_policy=settings.sandbox.to_wire(),
        cwd=settings.cwd,
        reasoning_effort=settings.effort or thread.traits.default_effort,
        forked_from_id=history.meta.get("forked_from_id"),
        thread_name=history.name,
        initial_messages=_said_before(history) if replay and history.records else None,
        rollout_path=history.writer.path if history.writer is not None else None,
    )


def _said_before(history: History) -> list[dict[str, Any]]:
    from spindle.thread.view import initial_messages  # only front ends that show the past need it

    return initial_messages(history.records)


def close_to_others(config: Config, warnings: list[str]) -> None:
    """Other people on this machine can read neither transcripts nor keys, also if another program left them open."""
    close_home(config.home, not_these=("/", os.path.expanduser("~"), config.cwd))
    try:
        is_open = os.stat(f"{config.home}/auth.json").st_mode & 0o077
    except OSError:
        return
    if is_open:
        from spindle.auth.store import close_file  # seldom

        close_file(config.home, warnings)
