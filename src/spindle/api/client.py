"""The client for programs without an event loop, and for any thread."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from spindle.api.agent_roles import AgentRole
from spindle.api.budgets import Budget
from spindle.api.client_core import BoundToProcess, ClientCore
from spindle.api.configuring import ClientOptions
from spindle.api.options import (
    ApprovalPolicy,
    Effort,
    ExportFormat,
    Mode,
    Path,
    Personality,
    SandboxMode,
    Summary,
    ThreadOptions,
    options_of,
)
from spindle.api.shown import Account, Match, ModelEntry, Page, ThreadRecord
from spindle.api.thread import Thread
from spindle.model.client import ModelClient


class Spindle(BoundToProcess):
    """The agent in your own process.

        with Spindle() as spindle:
            thread = spindle.thread_start(cwd=".", sandbox="workspace-write")
            result = thread.run("Explain this repository in three bullets.")
            print(result.final_response)

    Every method may be called from any thread, also inside a running event loop. Making a client does nothing yet;
    configuration is read at the first use. Close it with `close()` or `with`.

    Args:
        config: laid over config.toml: nested (`{"features": {"collab": True}}`) or with dotted keys
        home: the folder of configuration and records instead of `$CODEX_HOME`; made when it is missing
        profile: the configuration profile to use
        model_client: the model of all threads instead of the configured provider's
        client_name: how the program is named in requests and records
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        home: Path | None = None,
        profile: str | None = None,
        model_client: ModelClient | None = None,
        client_name: str = "spindle_python",
    ) -> None:
        options = ClientOptions(config=config, home=home, profile=profile, client_name=client_name)
        self._core = ClientCore(options, model_client)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{' closed' if self._core.is_closed else ''}>"

    def thread_start(
        self,
        *,
        cwd: Path | None = None,
        add_dirs: Sequence[Path] | None = None,
        sandbox: SandboxMode | None = None,
        approval_policy: ApprovalPolicy | None = None,
        model: str | None = None,
        model_provider: str | None = None,
        effort: Effort | None = None,
        summary: Summary | None = None,
        personality: Personality | None = None,
        mode: Mode | None = None,
        base_instructions: str | None = None,
        developer_instructions: str | None = None,
        config: Mapping[str, Any] | None = None,
        ephemeral: bool = False,
        name: str | None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        hooks: Mapping[str, Sequence[Any]] | None = None,
        agents: bool | Mapping[str, AgentRole] | None = None,
        budget: Budget | None = None,
        on_approval: Callable[..., Any] | None = None,
        on_question: Callable[..., Any] | None = None,
        model_client: ModelClient | None = None,
    ) -> Thread:
        """Start a thread.

        Args:
            cwd: the folder to work in; the current one if left out
            add_dirs: further folders that may be written in `workspace-write`
            sandbox: what commands and patches may reach
            approval_policy: when `on_approval` is asked; without that callback it is always `never`
            model: the model
            model_provider: a provider of the configuration, by its id
            effort: how long the model thinks
            summary: how much of its reasoning is summarised
            personality: the tone of the model
            mode: `plan`: propose a plan and change nothing
            base_instructions: instead of the built-in instructions
            developer_instructions: added to the instructions
            config: laid over the client's `config`, for this thread
            ephemeral: record nothing
            name: a name to find the thread by
            tools: functions that the model may call
            hooks: functions that are called at certain moments, by event
            agents: sub-agents: True, or roles by name
            budget: a `Budget` for all turns of the thread
            on_approval: asked before what the policy does not allow by itself
            on_question: asked what the model wants to know
            model_client: the model to talk to instead of the configured provider's

        Raises:
            ValueError: an option cannot be used; nothing was opened
            ConfigError: the configuration cannot be used
        """
        options = options_of(ThreadOptions, locals())
        return Thread(self._core, self._core.call(self._core.start(options)))

    def thread_resume(
        self,
        id_or_name: str,
        *,
        cwd: Path | None = None,
        add_dirs: Sequence[Path] | None = None,
        sandbox: SandboxMode | None = None,
        approval_policy: ApprovalPolicy | None = None,
        model: str | None = None,
        model_provider: str | None = None,
        effort: Effort | None = None,
        summary: Summary | None = None,
        personality: Personality | None = None,
        mode: Mode | None = None,
        base_instructions: str | None = None,
        developer_instructions: str | None = None,
        config: Mapping[str, Any] | None = None,
        ephemeral: bool = False,
        name: str | None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        hooks: Mapping[str, Sequence[Any]] | None = None,
        agents: bool | Mapping[str, AgentRole] | None = None,
        budget: Budget | None = None,
        on_approval: Callable[..., Any] | None = None,
        on_question: Callable[..., Any] | None = None,
        model_client: ModelClient | None = None,
    ) -> Thread:
        """Go on with a recorded thread.

        Args:
            id_or_name: the thread's id, or the name it was given
            others: as for `thread_start`; left out, they are as recorded

        Raises:
            ValueError: an option cannot be used; nothing was opened
            ConfigError: the configuration cannot be used
            ThreadNotFound: there is no such thread
            ThreadLocked: another process, or this client, has it open
        """
        options = options_of(ThreadOptions, locals())
        return Thread(self._core, self._core.call(self._core.resume(id_or_name, options)))

    def thread_fork(
        self,
        id_or_name: str,
        *,
        at: str | int | None = None,
        cwd: Path | None = None,
        add_dirs: Sequence[Path] | None = None,
        sandbox: SandboxMode | None = None,
        approval_policy: ApprovalPolicy | None = None,
        model: str | None = None,
        model_provider: str | None = None,
        effort: Effort | None = None,
        summary: Summary | None = None,
        personality: Personality | None = None,
        mode: Mode | None = None,
        base_instructions: str | None = None,
        developer_instructions: str | None = None,
        config: Mapping[str, Any] | None = None,
        ephemeral: bool = False,
        name: str | None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        hooks: Mapping[str, Sequence[Any]] | None = None,
        agents: bool | Mapping[str, AgentRole] | None = None,
        budget: Budget | None = None,
        on_approval: Callable[..., Any] | None = None,
        on_question: Callable[..., Any] | None = None,
        model_client: ModelClient | None = None,
    ) -> Thread:
        """Start a thread that begins with a copy of a recorded one.

        Args:
            id_or_name: the thread's id, or the name it was given
            at: the id of the last turn to keep, a response id, or the number of turns to keep; None keeps all
            others: as for `thread_start`; left out, they are as recorded

        Raises:
            ValueError: an option cannot be used; nothing was opened
            ConfigError: the configuration cannot be used
            ThreadNotFound: there is no such thread
            ThreadLocked: another process, or this client, has it open
        """
        options = options_of(ThreadOptions, locals())
        return Thread(self._core, self._core.call(self._core.fork(id_or_name, at, options)))

    @property
    def threads(self) -> Threads:
        """The recorded threads of the home: lists, searches, exports."""
        return Threads(self._core)

    def thread_list(
        self,
        *,
        cwd: Path | None = None,
        archived: bool = False,
        search: str | None = None,
        limit: int = 25,
        cursor: str | None = None,
    ) -> Page:
        """The same as `threads.list`."""
        return self._core.call(self._core.list(cwd=cwd, archived=archived, search=search, limit=limit, cursor=cursor))

    def thread_archive(self, id: str) -> None:
        """Move a thread out of the list, closing it if it is open here. Nothing is lost."""
        self._core.call(self._core.archive(id))

    def thread_unarchive(self, id: str) -> None:
        """Bring an archived thread back."""
        self._core.call(self._core.unarchive(id))

    def thread_delete(self, id: str) -> None:
        """Delete the record of a thread for good, closing it if it is open here."""
        self._core.call(self._core.delete(id))

    def models(self, *, include_hidden: bool = False) -> list[ModelEntry]:
        """The models there are to choose from, best first."""
        return self._core.call(self._core.models(include_hidden=include_hidden))

    def account(self) -> Account:
        """Who is signed in."""
        return self._core.call(self._core.account())

    def login_api_key(self, key: str) -> None:
        """Sign in with an API key from now on; it is stored in the home, for its owner only."""
        self._core.call(self._core.login_api_key(key))

    def logout(self) -> None:
        """Forget the stored login."""
        self._core.call(self._core.logout())

    def close(self) -> None:
        """Interrupt what runs, close all threads, and end the client's own thread. Safe to call twice."""
        self._core.close_from_outside()

    def __enter__(self) -> Spindle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Threads(BoundToProcess):
    """The recorded threads of a home. Made by `Spindle.threads`."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core

    def list(
        self,
        *,
        cwd: Path | None = None,
        archived: bool = False,
        search: str | None = None,
        limit: int = 25,
        cursor: str | None = None,
    ) -> Page:
        """A part of the list of threads, newest first.

        Args:
            cwd: only threads of this folder
            archived: the archived threads instead of the others
            search: only threads whose name or text has these words
            limit: how many at most
            cursor: where to go on, from `next_cursor` of the part before
        """
        return self._core.call(self._core.list(cwd=cwd, archived=archived, search=search, limit=limit, cursor=cursor))

    def search(self, text: str, *, limit: int = 20) -> builtins.list[Match]:
        """Where a text was said, in all threads."""
        return self._core.call(self._core.search(text, limit))

    def read(self, id: str, *, include_turns: bool = False) -> ThreadRecord:
        """The record of a thread, by its id or name, with its turns if they are asked for."""
        return self._core.call(self._core.read(id, include_turns=include_turns))

    def export(self, id: str, format: ExportFormat = "markdown") -> str:
        """The whole thread as one text: `markdown`, `html` or `json`."""
        return self._core.call(self._core.export(id, format))

    def archive(self, id: str) -> None:
        """Move a thread out of the list, closing it if it is open here. Nothing is lost."""
        self._core.call(self._core.archive(id))

    def unarchive(self, id: str) -> None:
        """Bring an archived thread back."""
        self._core.call(self._core.unarchive(id))

    def delete(self, id: str) -> None:
        """Delete the record of a thread for good, closing it if it is open here."""
        self._core.call(self._core.delete(id))
