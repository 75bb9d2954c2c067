"""Loads the command line fast: asyncio and msgspec get only the modules that they need when nothing is out of the way.

`ssl` is for servers that are reached by TLS: the first `import ssl` anywhere in the process hands it to asyncio. The
others tell about errors and describe types. While the two libraries are loaded, a stand-in has the place of each; it
loads the module when somebody asks it for something. Everybody else gets the module itself, so nobody can tell the
difference, but for a quarter of the time that the libraries take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


_CO_COROUTINE = 0x80
"""`inspect.CO_COROUTINE`: a flag of code, written out in the language's reference."""


def load_command_line() -> ModuleType:
    """Load `frontends/cli.py`, and do what makes that fast."""
    import gc  # only here

    # Modules and history stay for good: looking through them every 700 objects finds nothing and costs start-up time.
    # With this many, start-up has no collection at all.
    gc.set_threshold(100_000, 20, 50)
    # msgspec takes typing_extensions where another package brought it along; Python has all of it, several ms faster.
    sys.modules.setdefault("typing_extensions", None)  # pyright: ignore[reportArgumentType]
    _load_uuid()
    put_off()
    from spindle.frontends import cli  # after what is above

    if sys.modules["typing_extensions"] is None:
        del sys.modules["typing_extensions"]
    return cli


def _load_uuid() -> None:
    """Load `uuid`, which msgspec needs, without the large module that it only asks for the system's name."""
    if "platform" in sys.modules or not sys.platform.startswith("linux"):
        return
    stand_in = type(sys)("platform")
    stand_in.system = lambda: "Linux"
    sys.modules["platform"] = stand_in
    try:
        import uuid  # noqa: F401  # now, while the stand-in is there
    except Exception:
        sys.modules.pop("uuid", None)  # another Python asks for more; it gets the real module with msgspec
    finally:
        del sys.modules["platform"]


def put_off() -> None:
    """To be called before either library is loaded; one that is loaded already stays as it is."""
    if "asyncio" not in sys.modules and "ssl" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _StandIn(ModuleType):
    """In the place of a module that nobody may ever want."""

    def __init__(self, name: str, **attributes: Any) -> None:
        """`attributes` are those that are wanted while the library is loaded, if only to be used later."""
        super().__init__(name)
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # what the import system asks a module
        return getattr(self._module(), name)

    def _module(self) -> ModuleType:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]  # a version of the library that wants more of it at once
        __import__(name)
        return sys.modules[name]


def _late_function(module: str, name: str) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        __import__(module)
        return getattr(sys.modules[module], name)(*args, **named)

    return call


def _is_coroutine_function(function: Any) -> bool:
    """What asyncio asks `inspect` of every function that is to handle a signal."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    if code is not None and not code.co_flags & _CO_COROUTINE and not hasattr(plain, "_is_coroutine_marker"):
        return False
    return _late_function("inspect", "iscoroutinefunction")(function)


class _LateLogger:
    """In the place of a library's logger, until it has something to say."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def debug(self, *args: Any, **named: Any) -> None:
        # asyncio tells of every loop. Where nobody has loaded `logging`, nobody wants to know.
        if "logging" in sys.modules:
            self.__getattr__("debug")(*args, **named)

    def __getattr__(self, name: str) -> Any:
        import logging  # the moment that it was put off to

        return getattr(logging.getLogger(self._name), name)


def _stand_ins(library: str) -> list[_StandIn]:
    if library == "msgspec":
        schemas = {name: _late_function("msgspec._json_schema", name) for name in ("schema", "schema_components")}
        return [_StandIn("msgspec.inspect"), _StandIn("msgspec._json_schema", **schemas)]
    return [
        *(_StandIn(name) for name in ("linecache", "locale", "asyncio.sslproto")),
        _StandIn("inspect", iscoroutinefunction=_is_coroutine_function),
        _StandIn("traceback", extract_stack=_late_function("traceback", "extract_stack")),
        _StandIn("logging", getLogger=_LateLogger, DEBUG=10),
    ]


class _Finder:
    """Stands before all finders until `ssl` is loaded, and steps in for it and for the two libraries."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in ("asyncio", "msgspec", "ssl"):
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target))), None)
        if spec is not None:
            load = {"asyncio": self._load_asyncio, "msgspec": self._load_msgspec, "ssl": self._load_ssl}[name]
            spec.loader = _Loader(spec.loader, load)  # pyright: ignore[reportAttributeAccessIssue]
        return spec

    def _load_asyncio(self, run: Callable[[], None]) -> None:
        sys.modules["ssl"] = None  # pyright: ignore[reportArgumentType]
        try:
            _load_with_stand_ins("asyncio", run)  # asyncio can do without `ssl`: not every Python has it
        finally:
            del sys.modules["ssl"]

    def _load_msgspec(self, run: Callable[[], None]) -> None:
        _load_with_stand_ins("msgspec", run)

    def _load_ssl(self, run: Callable[[], None]) -> None:
        sys.meta_path.remove(self)
        run()
        for name in ("base_events", "selector_events"):
            module = sys.modules.get(f"asyncio.{name}")
            if module is not None and module.ssl is None:
                module.ssl = sys.modules["ssl"]  # pyright: ignore[reportAttributeAccessIssue]


def _load_with_stand_ins(library: str, run: Callable[[], None]) -> None:
    stand_ins = [one for one in _stand_ins(library) if one.__name__ not in sys.modules]
    sys.modules.update((one.__name__, one) for one in stand_ins)
    try:
        run()
    finally:
        for one in stand_ins:
            if sys.modules.get(one.__name__) is one:
                del sys.modules[one.__name__]


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
