"""What a tool may use of the session that calls it. Types only: the kernel provides the objects.

Nothing here is loaded when the program runs; `ToolContext` names these types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from spindle.protocol.events import Msg
from spindle.protocol.settings import ThreadSettings

if TYPE_CHECKING:
    from spindle.mcp.naming import RemoteTool
    from spindle.policy.widening import Given, Wish
    from spindle.process.command import Command
    from spindle.tools.command_arguments import PermissionArgs
    from spindle.tools.tool import Permit


class Emit(Protocol):
    """Tells everybody who follows the session."""

    def __call__(self, msg: Msg, /) -> None: ...


class Permission(Protocol):
    """Gets a yes from policy and, where policy says so, from a person. Every no is raised as `Rejected`."""

    async def command(self, argv: list[str], *, cwd: str, wants: PermissionArgs, tty: bool = False) -> Permit:
        """To run `argv` in `cwd`. `wants`: whether the model asks to run it outside of the sandbox, and why.

        `tty`: it gets a terminal, which the model may type into.
        """
        ...

    async def typing(self, chars: str, *, session_id: int, command: Command) -> None:
        """To type into a program that reaches more than the sandbox allows; `command` is how it was started."""
        ...

    async def typed_line(self, text: str, *, argv: list[str], cwd: str, before: str = "") -> None:
        """To type into any other, which may be a shell; `text` is all that then stands on its line, `before` the lines
        that it was given already."""
        ...

    async def retry(self, argv: list[str], *, cwd: str, tty: bool = False) -> bool:
        """To run `argv` again outside, after the sandbox stopped it and nobody had been asked; false for no.

        Raises Rejected when a person says why not.
        """
        ...

    async def patch(self, changes: dict[str, Any]) -> Permit:
        """To write `changes`: absolute paths with the wire form of a FileChange each."""
        ...

    async def patch_retry(self, changes: dict[str, Any]) -> Permit | None:
        """To write them after all, though they lie outside of the boundary; None for no.

        Raises Rejected when a person says why not.
        """
        ...

    async def more(self, wish: Wish) -> Given:
        """To reach more than the sandbox allows, for this turn or longer. A no is given back, not raised."""
        ...

    async def note(self, changes: dict[str, Any]) -> None:
        """To change notes that outlive the thread; `changes` as for a patch."""
        ...

    async def tool(self, tool: RemoteTool, arguments: dict[str, Any], mode: str | None, definition: str) -> None:
        """To call a tool of an MCP server; `mode` is what the user says of that server's tools.

        `definition` stands for what the server says of the tool now: a yes for the session is for that and no other.
        """
        ...

    async def resources(self, server: str, name: str, arguments: dict[str, Any], mode: str | None, entry: str) -> None:
        """To list or read what an MCP server keeps, with our tool `name`; `entry` stands for the server as it is."""
        ...

    async def function(self, name: str, arguments: dict[str, Any]) -> None:
        """To call a function of the embedding program, of which its author says that a person must be asked."""
        ...


class Person(Protocol):
    """Whoever sits at the other end: a person, or the client's program."""

    async def ask(self, kind: str, request: Msg) -> dict[str, Any]:
        """Put a question of a tool's own and give what was answered; ToolError where nobody can."""
        ...

    async def elicit(self, server: str, params: dict[str, Any]) -> dict[str, Any]:
        """What a person answers to a question of an MCP server; where nobody is to be asked, it is declined."""
        ...


class EditorFiles(Protocol):
    """Files as an editor has them open: what is not saved yet counts."""

    async def read(self, path: str) -> bytes | None:
        """What stands in the editor; None for a file that is read from disk. Raises OSError."""
        ...

    async def write(self, path: str, content: bytes) -> bool:
        """Have the editor write a file; False for one that is written to disk by ourselves. Raises OSError."""
        ...


class NoteFound(Protocol):
    """One entry of the record that a search met."""

    @property
    def entry(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def is_cut(self) -> bool: ...


class FileKeeper(Protocol):
    """Keeps what files were before a tool changes them, so that it can be undone."""

    async def before(self, paths: Sequence[str]) -> None:
        """These are about to be changed; absolute paths without links."""
        ...

    async def after(self) -> None:
        """They are, or something went wrong."""
        ...


class Notes(Protocol):
    """What is kept of a thread, whatever is compacted."""

    def pin(self, text: str, by: str = "user") -> None:
        """Keep a fact, word for word."""
        ...

    def read(self, path: str, *, hash: str) -> None:
        """A file was shown to the model."""
        ...

    def search(self, query: str, limit: int) -> Sequence[NoteFound]:
        """The newest entries of the record that hold every word of the query."""
        ...

    def entry(self, number: int) -> str | None:
        """The whole text of an entry; None when there is none."""
        ...


class SubAgents(Protocol):
    """The sub-agents of a session, by their ids."""

    async def spawn(self, message: str, role_name: str | None, settings: ThreadSettings) -> str:
        """Start one on a task; gives its id."""
        ...

    async def send(self, agent_id: str, message: str, *, interrupt: bool = False) -> None: ...

    async def wait(self, ids: list[str], timeout_s: float, *, any_of_them: bool = False) -> bool:
        """Wait until they are done; false when the time was not enough."""
        ...

    async def close(self, agent_id: str) -> None: ...

    def status(self, agent_id: str) -> str | dict[str, Any]: ...

    def usage(self, agent_id: str) -> dict[str, Any] | None:
        """The tokens it has spent; None for one that does not exist."""
        ...


class FindSubAgents(Protocol):
    """Gives the session's sub-agents, set up when they are first asked for; SpindleError where it has none."""

    def __call__(self) -> SubAgents: ...
