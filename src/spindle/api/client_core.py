"""What both clients are: options, the threads they have opened, and how a thread is opened. On one event loop.

`AsyncSpindle` and `Spindle` are the two faces of a `ClientCore`.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeVar

from spindle.api.budgets import budget_limits
from spindle.api.configuring import ClientOptions, home_of, load, recorded, recorded_options
from spindle.api.conversation import Conversation
from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.api.engine import Engine
from spindle.api.options import Path, ThreadOptions, check_id, check_model_client
from spindle.api.shown import Account, Match, ModelEntry, Page, ThreadRecord
from spindle.api.taking_over import RecordedTurn
from spindle.api.workers import in_thread
from spindle.assembly.model import ToolNameTaken
from spindle.config.schema import Config
from spindle.errors import ThreadClosed, ThreadError, ThreadLocked, ToolDefinitionError
from spindle.model.client import ModelClient
from spindle.protocol.clock import Clock, SystemClock
from spindle.protocol.hook_records import Hook
from spindle.thread.store import ThreadRef, ThreadStore
from spindle.tools.tool import Tool

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData

T = TypeVar("T")

_SOURCE = "vscode"
"""What a record says of threads that a program drives; the reference program's package says the same."""


class BoundToProcess:
    """Belongs to the process and the event loop that made it."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied: open a client in each process, and pass ids or results"
        )


class ClientCore:
    """A client, without its face."""

    def __init__(self, options: ClientOptions, model_client: ModelClient | None) -> None:
        self.is_closed = False
        self._pid: int | None = None
        """The process it was first used in."""
        options.check()
        check_model_client(model_client)
        self.options = options
        self.clock: Clock = SystemClock()
        self.conversations: dict[str, Conversation] = {}
        """The open ones, by thread."""
        self._model_client = model_client
        self._engine: Engine | None = None
        self._starting = threading.RLock()  # a stream that is collected just then calls too
        self._home: str | None = None

    # ---- being open ----------------------------------------------------------------------------

    @property
    def is_inherited(self) -> bool:
        """Is this a copy, in a child process, of a client of the parent?"""
        return self._pid is not None and self._pid != os.getpid()

    def check_open(self) -> None:
        """Raise ThreadClosed when it can no longer be used."""
        if self.is_closed:
            raise ThreadClosed("this client was closed")
        if self.is_inherited:
            raise ThreadClosed("this client belongs to the parent process; open another one after fork()")
        if self._pid is None:
            self._pid = os.getpid()
            _left_open.add(self)

    @property
    def is_left_open(self) -> bool:
        """Was it used and never closed?"""
        return not self.is_closed and self._pid is not None and not self.is_inherited

    @property
    def home(self) -> str:
        if self._home is None:
            self._home = home_of(self.options)
        return self._home

    @property
    def store(self) -> ThreadStore:
        return ThreadStore(self.home, self.clock)

    def config(self) -> Config:
        """The configuration without a thread."""
        return load(self.options, self.home, ThreadOptions())

    def conversation(self, thread_id: str) -> Conversation | None:
        """The open thread with this id."""
        found = self.conversations.get(thread_id)
        return None if found is None or found.is_closed or found.door.has_ended else found

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """For the synchronous client: run a coroutine on a loop of our own and wait for what it gives."""
        try:
            self.check_open()
            with self._starting:
                self.check_open()  # again: a client that is being closed must not get a second loop
                if self._engine is None:
                    self._engine = Engine()
                engine = self._engine
        except BaseException:
            work.close()
            raise
        return engine.call(work)

    # ---- opening -------------------------------------------------------------------------------

    async def start(self, options: ThreadOptions) -> Conversation:
        """A new thread."""
        options = options.checked()
        return await self._open(options, load(self.options, self.home, options))

    async def resume(self, id_or_name: str, options: ThreadOptions) -> Conversation:
        """A recorded thread, to go on with."""
        options = options.checked()
        ref = await self._find(id_or_name)
        if self.conversation(ref.id) is not None:
            raise ThreadLocked(f"thread {ref.id} is open in this client already; close it first")
        options, config, _ = await self._as_recorded(ref, options)
        return await self._open(options, config, thread=ref.id)

    async def fork(self, id_or_name: str, at: str | int | None, options: ThreadOptions) -> Conversation:
        """A new thread that begins with a copy of a recorded one."""
        options = options.checked()
        if options.ephemeral:
            raise ValueError("ephemeral is for new threads: a fork is recorded")
        ref = await self._find(id_or_name)
        options, config, data = await self._as_recorded(ref, options)
        from spindle.api.records import fork_point  # only to fork

        return await self._open(options, config, thread=ref.id, fork=True, fork_at=fork_point(data, at))

    async def fork_open(self, conversation: Conversation, at: str | int | None) -> Conversation:
        """A new thread that begins with a copy of one that is open here, with the same options."""
        if conversation.door.path is None:
            raise ThreadError("an ephemeral thread has no record, so it cannot be forked")
        conversation.check_open()
        if at is None and conversation.turn is not None:
            from spindle.api.records import turns_that_ended  # only to look back

            at = turns_that_ended(conversation.door.records)
        kept = conversation.options_now()
        if not conversation.is_recorded and at in (None, 0):
            return await self.start(kept)  # nothing was said yet, so there is nothing to copy
        return await self.fork(conversation.door.id, at, kept)

    async def _as_recorded(self, ref: ThreadRef, options: ThreadOptions) -> tuple[ThreadOptions, Config, RolloutData]:
        """The options and the configuration with which a recorded thread goes on."""
        data = await in_thread(self.store.read, ref)
        turn = RecordedTurn.of(data, self.home, self.clock)
        there = recorded_options(options, turn)
        return there, recorded(load(self.options, self.home, there), options, data, turn), data

    async def _open(self, options: ThreadOptions, config: Config, **which: Any) -> Conversation:
        """Open the thread and let it work."""
        self.check_open()
        check_model_client(self._model_client)
        lent = self._model_client if options.model_client is None else options.model_client
        late: list[Conversation] = []
        config = _with_agents(config, options)
        functions = _Functions(options, lambda error: _abort(late, error))
        hooks = _hooks(options)
        door = await _opened(
            SessionRequest(
                config=config,
                source=_SOURCE,
                originator=self.options.client_name,
                is_attended=options.on_approval is not None,
                ephemeral=options.ephemeral,
                base_instructions=options.base_instructions,
                client=None if lent is None else _borrowed(lent),
                clock=self.clock,
                tools=functions.tools,
                agent_tools=functions.of_roles,
                hooks=hooks,
                budget=budget_limits(options.budget),
                **which,
            )
        )
        conversation = Conversation(door, config, options, self.clock)
        late.append(conversation)
        if self.is_closed:
            await conversation.close()
            raise ThreadClosed("this client was closed")
        self.conversations[door.id] = conversation
        conversation.begin()
        return conversation

    async def _find(self, id_or_name: str) -> ThreadRef:
        check_id(id_or_name)
        return await in_thread(self.store.get, id_or_name)

    # ---- records -------------------------------------------------------------------------------

    async def read_open(self, conversation: Conversation, *, include_turns: bool) -> ThreadRecord:
        """The record of an open thread."""
        from spindle.api.records import live_record  # only to look back

        conversation.check_open()
        return live_record(conversation.door, conversation.name, include_turns=include_turns)

    async def list(
        self, *, cwd: Path | None, archived: bool, search: str | None, limit: int, cursor: str | None
    ) -> Page:
        from spindle.api.records import folder_of, list_threads  # only to look back

        folder, store = folder_of(cwd), self.store
        return await in_thread(
            lambda: list_threads(store, cwd=folder, archived=archived, search=search, limit=limit, cursor=cursor)
        )

    async def search(self, text: str, limit: int) -> builtins.list[Match]:
        from spindle.api.records import search_threads  # only to look back

        return await in_thread(search_threads, self.store, text, limit)

    async def read(self, id_or_name: str, *, include_turns: bool) -> ThreadRecord:
        from spindle.api.records import read_thread  # only to look back

        check_id(id_or_name)
        if (found := self.conversation(id_or_name)) is not None and not found.is_recorded:
            return await self.read_open(found, include_turns=include_turns)
        store = self.store
        return await in_thread(lambda: read_thread(store, id_or_name, include_turns=include_turns))

    async def export(self, id_or_name: str, given: str) -> str:
        from spindle.api.exports import check_format, export  # only to look back

        check_format(given)
        record = await self.read(id_or_name, include_turns=True)
        return await in_thread(export, record, given)

    async def archive(self, id_or_name: str) -> None:
        check_id(id_or_name)
        if (found := self.conversation(id_or_name)) is not None and found.door.path is None:
            raise ThreadError("an ephemeral thread has no record, so it cannot be archived")
        ref = await self._find(id_or_name)
        await self.let_go(ref.id)
        await in_thread(self.store.archive, ref.id)

    async def unarchive(self, id_or_name: str) -> None:
        ref = await self._find(id_or_name)
        await in_thread(self.store.unarchive, ref.id)

    async def delete(self, id_or_name: str) -> None:
        ref = await self._find(id_or_name)
        await self.let_go(ref.id)
        from spindle.api.undoing import delete_thread  # seldom, and it knows the store of checkpoints

        await in_thread(delete_thread, self.store, ref.id)

    # ---- models and accounts -------------------------------------------------------------------

    async def models(self, *, include_hidden: bool) -> builtins.list[ModelEntry]:
        from spindle.api.accounts import list_models  # few programs ask

        return await in_thread(list_models, self.config(), include_hidden)

    async def account(self) -> Account:
        from spindle.api.accounts import read_account  # few programs ask

        return await in_thread(read_account, self.config())

    async def login_api_key(self, key: str) -> None:
        from spindle.api.accounts import sign_in  # few programs ask

        await in_thread(sign_in, self.config(), key)

    async def logout(self) -> None:
        from spindle.api.accounts import sign_out  # few programs ask

        await sign_out(self.config())

    # ---- closing -------------------------------------------------------------------------------

    async def close_thread(self, conversation: Conversation) -> None:
        await conversation.close()
        if self.conversations.get(conversation.door.id) is conversation:
            del self.conversations[conversation.door.id]

    async def let_go(self, thread_id: str) -> None:
        """Close the thread if it is open here: what is done to its record next needs it closed."""
        if (conversation := self.conversation(thread_id)) is not None:
            await self.close_thread(conversation)

    async def close(self) -> None:
        """Close all threads. Safe to call twice."""
        self.is_closed = True
        _left_open.discard(self)
        if self.is_inherited:
            return
        await asyncio.gather(*map(self.close_thread, tuple(self.conversations.values())))

    def close_from_outside(self) -> None:
        """The same for the synchronous client, whose loop ends too."""
        if self.is_inherited:  # before the lock, which a thread of the parent may have held when the child was made
            self.is_closed = True
            return
        with self._starting:
            if self._engine is not None:
                self._engine.check_outside()  # first: a close that is refused must leave everything as it was
            engine, self._engine = self._engine, None
            self.is_closed = True
            _left_open.discard(self)
        if engine is None:
            return
        try:
            engine.call(self.close())
        finally:  # also after Ctrl-C, or the thread would stay for good
            engine.stop()

    def close_at_exit(self) -> None:
        if not self.is_inherited:
            (self.kill if self._engine is None else self.close_from_outside)()

    def __del__(self) -> None:
        if not self.is_left_open:
            return
        warnings.warn("a client of Spindle was never closed; use `with`, or close()", ResourceWarning, stacklevel=2)
        if self._engine is not None:
            self._engine.end_with(self.close())
            return
        for conversation in self.conversations.values():
            conversation.close_soon()
        self.kill()

    def kill(self) -> None:
        """The same where there is no loop any more: programs that were left running are ended."""
        self.is_closed = True
        _left_open.discard(self)
        for conversation in self.conversations.values():
            if not conversation.is_closed:
                conversation.kill()
        self.conversations.clear()


_left_open: weakref.WeakSet[ClientCore] = weakref.WeakSet()
"""Clients that were used and not closed."""


@atexit.register
def _close_what_is_left() -> None:
    for core in tuple(_left_open):
        core.close_at_exit()


class _Functions:
    """The functions that a thread and the roles of its sub-agents have as tools."""

    def __init__(self, options: ThreadOptions, on_exit: Callable[[BaseException], None]) -> None:
        self.tools: Sequence[Tool] = ()
        self.of_roles: dict[str, Sequence[Tool]] = {}
        can_ask = options.on_approval is not None
        if options.tools:
            from spindle.api.functions import python_tools  # only where there are any

            self.tools = python_tools(options.tools, on_exit=on_exit, can_ask=can_ask)
        if isinstance(options.agents, Mapping):
            from spindle.api.agent_roles import role_functions  # only where there are roles
            from spindle.api.functions import python_tools  # likewise

            named = dict(zip([tool.name for tool in self.tools], options.tools or (), strict=True))
            functions = role_functions(options.agents, named)
            self.of_roles = {
                role: python_tools(given, on_exit=on_exit, can_ask=can_ask) for role, given in functions.items()
            }


def _borrowed(client: ModelClient) -> ModelClient:
    from spindle.api.borrowed import Borrowed  # most programs leave the choice of the model to the configuration

    return Borrowed(client)


def _with_agents(config: Config, options: ThreadOptions) -> Config:
    if options.agents is None:
        return config
    from spindle.api.agent_roles import with_agents  # only where there is something to say about them

    return with_agents(config, options.agents)


async def _opened(request: SessionRequest) -> OpenThread:
    try:
        return await open_thread(request)
    except ToolNameTaken as error:
        raise ToolDefinitionError(
            f"the function {error.name} cannot be a tool: {error} (tool(name=…) gives it another)"
        ) from error


def _hooks(options: ThreadOptions) -> tuple[Hook, ...]:
    if not options.hooks:
        return ()
    from spindle.api.hook_functions import function_hooks  # only where there are any

    return function_hooks(options.hooks)


def _abort(conversations: list[Conversation], error: BaseException) -> None:
    """A tool raised KeyboardInterrupt or SystemExit: the turn is stopped, and whoever waits for it gets the same."""
    for conversation in conversations:
        conversation.stop_with(error)
