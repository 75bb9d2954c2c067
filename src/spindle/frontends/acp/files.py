"""Files through the editor: patches see what is not saved yet, and change the text that is open."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from spindle.errors import SpindleError
from spindle.frontends.acp.diffs import read_text
from spindle.frontends.json_rpc import RpcError
from spindle.frontends.rpc_peer import RpcPeer

Roots = Callable[[], list[str]]


class ClientFiles:
    """The text files of one session's folders, as its editor has them. Everything else stays on disk."""

    def __init__(self, peer: RpcPeer) -> None:
        self._peer = peer
        self.session_id = ""
        self.roots: Roots = list
        """The folders of the session; set when it is open."""
        self._read: dict[str, str] = {}

    async def read(self, path: str) -> bytes | None:
        """What stands in the editor; None for a file that is not there, is no text, or lies elsewhere."""
        if not self._is_inside(path) or read_text(path) is None:
            self._read.pop(path, None)
            return None
        found = await self._ask("fs/read_text_file", path)
        content = found.get("content") if isinstance(found, dict) else None
        if not isinstance(content, str):
            raise OSError(errno.EIO, "the editor did not give the text of the file", path)
        self._read[path] = content
        return content.encode("utf-8", "replace")

    async def write(self, path: str, content: bytes) -> bool:
        """Have the editor write the file; False for one that is no text, or lies elsewhere."""
        is_new = not os.path.lexists(path)
        if not self._is_inside(path) or not (is_new or read_text(path) is not None):
            return False
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return False
        await self._ask("fs/write_text_file", path, content=text)
        return os.path.isfile(path)  # an editor that keeps it to itself leaves the writing to us

    def text_of(self, path: str) -> str | None:
        """The text that a patch was made for: the editor's where it was asked, else that on disk."""
        return self._read[path] if path in self._read else read_text(path)

    def forget(self) -> None:
        """A new turn begins."""
        self._read.clear()

    def _is_inside(self, path: str) -> bool:
        if ".git" in path.split("/"):
            return False
        return any(path.startswith(root.rstrip("/") + "/") for root in self.roots())

    async def _ask(self, method: str, path: str, **more: str) -> object:
        try:
            return await self._peer.request(method, {"sessionId": self.session_id, "path": path, **more})
        except (RpcError, SpindleError) as error:
            raise OSError(errno.EIO, f"the editor says: {error}", path) from error
