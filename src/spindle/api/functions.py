"""Python functions as tools: the `tool` decorator, what a function is handed, and how its call is run.

A function runs in the caller's process with the caller's rights: a plain one in a thread of its own, a coroutine on the
engine's loop. Whatever it raises is told to the model; only `KeyboardInterrupt` and `SystemExit` leave the turn.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar, overload

import msgspec

from spindle.api.signatures import FunctionSignature, check_name, check_parameters, read_signature
from spindle.api.tool_results import Output, model_output, shown_text
from spindle.api.workers import Outcome, outcome_in_thread, outcome_on_loop
from spindle.errors import Rejected, ToolDefinitionError, ToolError
from spindle.protocol.items import decode_foreign
from spindle.protocol.python_tools import PythonToolCallBegin, PythonToolCallEnd, PythonToolCallProgress
from spindle.tools.tool import ToolCall, ToolResult
from spindle.tools.tool import ToolContext as CallContext

log = logging.getLogger("spindle.tools")
log.addHandler(logging.NullHandler())  # without one, Python would print what nobody asked to see

Approval = bool | Callable[[dict[str, Any]], object]
"""Whether a call is asked about first: always, never, or as a function of its arguments says."""
ExitHook = Callable[[BaseException], None]
"""Hears of a `KeyboardInterrupt` or `SystemExit` in a tool, and interrupts the turn."""

BUILT_IN = frozenset(
    (
        *("exec_command", "write_stdin", "shell", "shell_command", "local_shell", "apply_patch", "view_image"),
        *("update_plan", "request_user_input", "web_search", "grep_files", "read_file", "list_dir"),
        *("list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"),
    )
)
"""Names that no function can have: a model of the thread, now or later, may be offered these tools."""

_MARK = "__spindle_tool__"
_EVENT_MAX_CHARS = 1024 * 1024
_INTERRUPT_S = 5.0
"""How long an interrupt that was asked for may take to reach the call that caused it."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToolContext:
    """What a tool may know of its call.

    A parameter with this annotation is not shown to the model; the function gets the context of the call in it.
    """

    thread_id: str = ""
    """The thread whose model made the call."""
    turn_id: str = ""
    """The turn that waits for the answer."""
    call_id: str = ""
    """The call itself, as in the items and events about it."""
    cwd: str = ""
    """The working folder of the thread; the process may be in another one."""
    cancelled: threading.Event = dataclasses.field(default_factory=threading.Event)
    """Set when nobody waits for the answer any more: the turn was interrupted, or the time is over."""
    on_emit: Callable[[str], None] | None = dataclasses.field(default=None, repr=False)
    """What hears of progress; None where nobody does, as in a test of the function."""

    def emit(self, text: str) -> None:
        """Say how far the work is: readers of the turn's events see it as `item.updated`. From any thread."""
        if self.on_emit is not None:
            self.on_emit(str(text))


class ToolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the decorator says of a function."""

    name: str | None = None
    description: str | None = None
    approval: Approval = False
    parallel: bool = True
    timeout: float | None = None
    signature: FunctionSignature | None = None
    """Read when the function was marked, where the types it names can be seen; None if that was too early."""


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    parallel: bool = True,
    timeout: float | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    approval: Approval = False,
    parallel: bool = True,
    timeout: float | None = None,
) -> Any:
    """Say how a function is to be used as a tool. The function itself stays as it is and can be called as before.

    Use it as `@tool` or `@tool(approval=True)`; a function without it can be a tool too, with the values below.

    Args:
        name: what the model calls it; the function's own name if left out
        description: what the model is told of it; the first paragraph of the docstring if left out
        approval: ask `on_approval` before each call (True), or before those for which this function of the arguments,
            a dict, gives something true
        parallel: whether it may run beside other calls of the same response; else it runs alone, after them
        timeout: seconds after which the model is told that the call took too long

    Raises:
        ToolDefinitionError: the function cannot be a tool, or an option cannot be used
    """
    options = ToolOptions(name=name, description=description, approval=approval, parallel=parallel, timeout=timeout)

    def mark(function: Any) -> Any:
        _check(function, options)
        marked = msgspec.structs.replace(options, signature=_signature_now(function, options))
        if not inspect.isfunction(function) or hasattr(function, _MARK):
            function = partial(function)  # a method takes no mark; and the same function may become two tools
        setattr(function, _MARK, marked)
        return function

    return mark if function is None else mark(function)


def python_tools(
    functions: Iterable[Callable[..., Any]],
    *,
    taken: Iterable[str] = (),
    on_exit: ExitHook | None = None,
    can_ask: bool = True,
) -> list[PythonTool]:
    """The tools of one thread, in the order given.

    `taken` are names of other tools of the thread, beside the built-in ones; `can_ask`: somebody answers requests for
    approval. Raises ToolDefinitionError.
    """
    if isinstance(functions, str | bytes) or not isinstance(functions, Iterable):
        raise ToolDefinitionError(f"tools is a list of functions, not {type(functions).__name__}")
    tools: list[PythonTool] = []
    used = dict.fromkeys(BUILT_IN, "the name of a built-in tool") | dict.fromkeys(taken, "taken already")
    for function in functions:
        made = PythonTool(function, on_exit, can_ask=can_ask)
        if made.name in used:
            raise ToolDefinitionError(
                f"the function {made.name} cannot be a tool: {made.name!r} is {used[made.name]} "
                "(tool(name=…) gives it another)"
            )
        if made.name.startswith("mcp__"):
            raise ToolDefinitionError(f"{made.name!r} cannot be the name of a tool: mcp__… are those of MCP servers")
        used[made.name] = "the name of another function"
        tools.append(made)
    return tools


def _check(function: Any, options: ToolOptions) -> None:
    """What can be said when a function is marked: its types may name others that are defined further down."""
    check_parameters(function, check_name(function, options.name))
    if not isinstance(options.approval, bool) and not callable(options.approval):
        raise ToolDefinitionError(f"approval is a bool or a function of the arguments, not {options.approval!r}")
    if not isinstance(options.parallel, bool):
        raise ToolDefinitionError(f"parallel is True or False, not {options.parallel!r}")
    if options.description is not None and not isinstance(options.description, str):
        raise ToolDefinitionError(f"description is text, not {type(options.description).__name__}")
    timeout = options.timeout
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ToolDefinitionError(f"timeout is a number of seconds above zero, not {timeout!r}")


def _signature(function: Callable[..., Any], options: ToolOptions) -> FunctionSignature:
    return read_signature(function, context_type=ToolContext, name=options.name, description=options.description)


def _signature_now(function: Any, options: ToolOptions) -> FunctionSignature | None:
    """The signature, unless it names a type that is defined further down, or the function is going to be a method."""
    around = getattr(function, "__qualname__", "").rpartition(".")[0]
    if inspect.isfunction(function) and around and not around.endswith("<locals>"):
        return None
    try:
        return _signature(function, options)
    except ToolDefinitionError as error:
        if isinstance(error.__cause__, NameError):
            return None
        raise


class PythonTool:
    """A function as the engine sees it: a `Tool` like any other."""

    def __init__(self, function: Callable[..., Any], on_exit: ExitHook | None = None, *, can_ask: bool = True) -> None:
        options = getattr(function, _MARK, None)
        self._options: ToolOptions = options if isinstance(options, ToolOptions) else ToolOptions()
        _check(function, self._options)
        self._function = function
        self._on_exit = on_exit
        self._can_ask = can_ask
        self._signature = self._options.signature or _signature(function, self._options)
        self._is_coroutine = _is_coroutine_function(function)
        self.name = self._signature.name
        self.parallel = self._options.parallel
        self.runs_last = not self.parallel

    def spec(self) -> dict[str, Any]:
        return {
            "type": "function",
            "name": self.name,
            "description": self._signature.description,
            "strict": False,
            "parameters": self._signature.parameters,
        }

    async def run(self, call: ToolCall, ctx: CallContext) -> ToolResult:
        given = _given(call)
        shown = _Shown(self.name, given, ctx)
        try:
            values = self._checked(given)
            if await self._is_asked_about(values):
                if not self._can_ask:
                    raise Rejected(f"{self.name} rejected: approval is needed for this tool, but nobody can be asked")
                await ctx.permission.function(self.name, given)
            shown.begin()
            output = await self._called(values, ctx)
        except ToolError as error:
            shown.end(error=str(error))
            raise
        except Exception as error:
            log.error("the tool %s failed", self.name, exc_info=error)
            text = _told(error)
            shown.end(error=text)
            raise ToolError(text) from error
        except BaseException:
            shown.end(error="interrupted")
            raise
        shown.end(result=shown_text(output))
        return ToolResult(output=output)

    # ---- before the call -----------------------------------------------------------------------

    def _checked(self, given: Any) -> dict[str, Any]:
        if not isinstance(given, dict):
            raise ToolError(f"invalid arguments for {self.name}: they must be a JSON object")
        values, problems = self._signature.arguments(given)
        if problems:
            raise ToolError(f"invalid arguments for {self.name}: {'; '.join(problems)}")
        return values

    async def _is_asked_about(self, values: dict[str, Any]) -> bool:
        approval = self._options.approval
        if isinstance(approval, bool):
            return approval
        arguments = {**self._signature.defaults, **values}
        return bool(await self._awaited(await outcome_in_thread(lambda: approval(arguments), self.name)))

    # ---- the call ------------------------------------------------------------------------------

    async def _called(self, values: dict[str, Any], ctx: CallContext) -> Output:
        progress = _Progress(ctx)
        context = ToolContext(
            thread_id=ctx.thread_id,
            turn_id=ctx.turn_id,
            call_id=ctx.call_id,
            cwd=ctx.settings.cwd,
            on_emit=progress.emit,
        )
        values = {**values, **dict.fromkeys(self._signature.context, context)}
        seconds = self._options.timeout
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._answer(values, ctx.output.accepts_images)
        except asyncio.CancelledError:
            context.cancelled.set()
            raise
        except TimeoutError as error:
            if not limit.expired():
                raise
            context.cancelled.set()
            raise ToolError(f"{self.name} took longer than {seconds:g} seconds and was given up") from error
        finally:
            progress.close()

    async def _answer(self, values: dict[str, Any], accepts_images: bool) -> Output:
        def render(value: Any) -> Output:
            return model_output(value, accepts_images=accepts_images)

        def work() -> Any:
            value = self._function(**values)
            return value if inspect.isawaitable(value) else render(value)

        if not self._is_coroutine:
            outcome = await outcome_in_thread(work, self.name)
            if not inspect.isawaitable(outcome.value):
                return await self._awaited(outcome)
            value = await self._awaited(outcome)
        else:
            value = await self._awaited(await outcome_on_loop(lambda: self._function(**values)))
        if value is None or isinstance(value, str):
            return render(value)
        # Pictures are read from files and made smaller: not on the loop.
        return await self._awaited(await outcome_in_thread(lambda: render(value), self.name))

    async def _awaited(self, outcome: Outcome) -> Any:
        """The value; what was raised is raised again, but an exit only after the turn had time to be interrupted."""
        if outcome.error is None and inspect.isawaitable(outcome.value):
            awaitable: Awaitable[Any] = outcome.value
            outcome = await outcome_on_loop(lambda: awaitable)
        error = outcome.error
        if isinstance(error, KeyboardInterrupt | SystemExit) and self._on_exit is not None:
            self._on_exit(error)
            # The model must not be asked again before the interrupt has found this turn.
            await asyncio.sleep(_INTERRUPT_S)
        if error is None:
            return outcome.value
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise error
        raise _Exited(_told(error)) from error


class _Exited(Exception):
    """What came out of a function would mean something else to the coroutines around: it must end the call only."""


class _Shown:
    """What people see of one call."""

    def __init__(self, tool: str, arguments: Any, ctx: CallContext) -> None:
        self._tool = tool
        self._arguments = arguments
        self._ctx = ctx
        self._started = ctx.clock.monotonic()
        self._is_begun = False

    def begin(self) -> None:
        self._is_begun = True
        self._started = self._ctx.clock.monotonic()
        self._ctx.emit(
            PythonToolCallBegin(
                call_id=self._ctx.call_id, turn_id=self._ctx.turn_id, tool=self._tool, arguments=self._arguments
            )
        )

    def end(self, *, result: str | None = None, error: str | None = None) -> None:
        """Also of a call that never began: whoever reads the items sees what became of it."""
        if not self._is_begun:
            self.begin()
        self._ctx.emit(
            PythonToolCallEnd(
                call_id=self._ctx.call_id,
                turn_id=self._ctx.turn_id,
                tool=self._tool,
                arguments=self._arguments,
                success=error is None,
                result=None if result is None else _cut(result),
                error=None if error is None else _cut(error),
                duration_ms=round((self._ctx.clock.monotonic() - self._started) * 1000),
            )
        )


class _Progress:
    """Passes on what a function says while it runs, from whatever thread; afterwards nobody listens any more."""

    def __init__(self, ctx: CallContext) -> None:
        self._ctx = ctx
        self._loop, self._home = asyncio.get_running_loop(), threading.get_ident()
        self._is_over = False

    def emit(self, text: str) -> None:
        if threading.get_ident() == self._home:
            self._tell(text)
            return
        try:
            self._loop.call_soon_threadsafe(self._tell, text)
        except RuntimeError:
            pass  # the loop has been closed meanwhile

    def close(self) -> None:
        self._is_over = True

    def _tell(self, text: str) -> None:
        if not self._is_over:
            ctx = self._ctx
            ctx.emit(PythonToolCallProgress(call_id=ctx.call_id, turn_id=ctx.turn_id, text=_cut(text)))


def _given(call: ToolCall) -> Any:
    """The arguments as the model gave them; the text itself if it is no JSON. Some models send nothing for none."""
    if not call.arguments.strip():
        return {}
    try:
        return decode_foreign(call.arguments)
    except (msgspec.DecodeError, UnicodeError):
        return call.arguments


def _told(error: BaseException) -> str:
    """`NameOfException: message`."""
    if isinstance(error, _Exited):
        return str(error)
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # the exception is the caller's, and so is its __str__
        message = ""
    return f"{name}: {message}" if message else name


def _cut(text: str) -> str:
    return text if len(text) <= _EVENT_MAX_CHARS else f"{text[:_EVENT_MAX_CHARS]}…"


def _is_coroutine_function(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - a callable object
