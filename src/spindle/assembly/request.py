"""What a front end asks for when it wants a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.config.providers import OSS_PORTS
from spindle.config.schema import Config
from spindle.core.stream import EventStream
from spindle.model.client import ModelClient
from spindle.protocol.clock import Clock, SystemClock
from spindle.protocol.settings import BudgetLimits
from spindle.tools.tool import Tool

if TYPE_CHECKING:
    from spindle.core.child_session import SessionOrder
    from spindle.core.feature import Feature
    from spindle.core.gated_client import RequestGate
    from spindle.mcp.pool import ServerPool
    from spindle.protocol.hook_records import Hook
    from spindle.tools.services import EditorFiles


class SessionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which thread to open, and for whom."""

    config: Config
    source: str
    """"exec", "cli", "vscode" or "mcp": what kind of front end asks."""
    originator: str
    ephemeral: bool = False
    thread: str | None = None
    """Id or name of a recorded thread to go on with."""
    rollout_path: str | None = None
    """The same, by its file."""
    newest: bool = False
    """Go on with the newest thread of this folder; a new one when there is none."""
    any_folder: bool = False
    fork: bool = False
    """Branch off instead of going on."""
    fork_at: str | int | None = None
    """The response after which to branch, or the number of turns to keep; None = the end."""
    base_instructions: str | None = None
    user_instructions: str | None = None
    is_attended: bool = True
    """Somebody can answer what a person is asked. Otherwise such a question is a no, at once."""
    bypass: bool = False
    """The person started this with the flag that takes away sandbox and approvals; the record says so."""
    legacy_interrupt_error: bool = False
    replay: bool = False
    """Tell the front end what was said before, in session_configured."""
    client: ModelClient | None = None
    """Talk to this model instead of the configured provider (the demo, tests)."""
    gate: RequestGate | None = None
    """Asked before each request to the model, told after it; for sub-agents and reviews too."""
    clock: Clock = SystemClock()
    stream: EventStream | None = None
    order: SessionOrder | None = None
    """Given by the session that opens this one: for a sub-agent, or for a review."""
    dynamic_tools: list[dict[str, Any]] = []
    """Tools that the client answers itself; recorded with the thread."""
    features: tuple[Feature, ...] = ()
    """What else the session can do; after its own features, in this order. Each belongs to one session."""
    tools: Sequence[Tool] = ()
    """Tools that the embedding program brings along; not recorded."""
    agent_tools: Mapping[str, Sequence[Tool]] = {}
    """The same for sub-agents, by the name of their role."""
    hooks: tuple[Hook, ...] = ()
    """Functions of the caller's, asked before configured hooks of the same event; sub-agents have them too."""
    editor: EditorFiles | None = None
    """An editor that has files of the workspace open; patches go through it."""
    budget: BudgetLimits | None = None
    """What the thread may use as long as it is open, beside what is configured; None = nothing is said about it."""
    pursues_goals: bool = False
    """Turns that nobody asked for are welcome: a thread with an active goal goes on by itself."""
    pursues_foreign_goals: bool = False
    """The same for a goal that a thread's file brings which another home wrote: to go on is what was asked for."""
    reload: Callable[[], Config] | None = None
    """Reads the configuration anew; None = it stays as it is."""
    pool: ServerPool | None = None
    """The MCP servers of the session that a person opened, for its sub-agents."""
    checkpoints: Any = None
    """What keeps the files that the session which a person opened has changed, for its sub-agents."""
    root: SessionRequest | None = None
    """The request for the session that a person opened, if this one is for a sub-agent."""

    @property
    def asks_local_server(self) -> bool:
        """The model is asked of Ollama or LM Studio, which can tell about it beforehand."""
        return self.client is None and self.config.provider.id in OSS_PORTS
