"""Keeps asyncio from loading `ssl` before somebody wants it.

asyncio loads it for servers that are reached by TLS. That takes a fifteenth of the start, and is of no use to a model
on this machine, or to a command that asks no model. The first `import ssl` anywhere in the process hands it to asyncio,
so nobody can tell the difference.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def put_off() -> None:
    if "asyncio" not in sys.modules and "ssl" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder:
    """Stands before all finders until `ssl` is loaded, and steps in for it and for asyncio."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        load = {"asyncio": self._load_asyncio, "ssl": self._load_ssl}.get(name)
        if load is None:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target))), None)
        if spec is not None:
            spec.loader = _Loader(spec.loader, load)  # pyright: ignore[reportAttributeAccessIssue]
        return spec

    def _load_asyncio(self, run: Callable[[], None]) -> None:
        sys.modules["ssl"] = None  # pyright: ignore[reportArgumentType]
        try:
            run()  # asyncio can do without: not every Python has `ssl`
        finally:
            del sys.modules["ssl"]

    def _load_ssl(self, run: Callable[[], None]) -> None:
        sys.meta_path.remove(self)
        run()
        for name in ("base_events", "selector_events"):
            module = sys.modules.get(f"asyncio.{name}")
            if module is not None and module.ssl is None:
                module.ssl = sys.modules["ssl"]  # pyright: ignore[reportAttributeAccessIssue]
        # What this one is made of depends on `ssl`, and nothing of it is in use yet.
        protocol = sys.modules.get("asyncio.sslproto")
        if protocol is not None and protocol.ssl is None:
            protocol.__loader__.exec_module(protocol)  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]


class _Loader:
    """A module's own loader, with something around the moment when the module runs."""

    def __init__(self, loader: Any, around: Callable[[Callable[[], None]], None]) -> None:
        self._loader = loader
        self._around = around

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._around(lambda: self._loader.exec_module(module))
