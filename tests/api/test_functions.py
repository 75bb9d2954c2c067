"""Python functions as tools: what the model is offered, what its calls cause, what people see."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import pathlib
import threading
import typing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pydantic
import pytest

from api.kit import Colour, Model, Plant, Point
from sessions import Driver, Start, tags
from spindle.api import functions, tool_results
from spindle.api.functions import BUILT_IN, PythonTool, ToolContext, python_tools, tool
from spindle.api.tool_results import Image
from spindle.core.feature import Feature
from spindle.errors import Rejected, ToolDefinitionError, ToolError
from spindle.frontends.app_server.translate import Translator
from spindle.frontends.plain_text import Look
from spindle.frontends.transcript import Transcript
from spindle.model.scripted import calls, says
from spindle.protocol.events import Event, TaskStarted, TurnAborted, Warning
from spindle.protocol.ops import Interrupt, ResolveElicitation
from spindle.protocol.python_tools import PythonToolCallBegin, PythonToolCallEnd, PythonToolCallProgress
from spindle.protocol.tool_servers import ElicitationRequest
from spindle.tools.router import JIT_TOOLS, ToolChoice, build_tools
from tools.bench import Bench

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class Brings(Feature):
    """Brings functions into a session."""

    def __init__(self, tools: list[PythonTool]) -> None:
        self._tools = tools

    def tools(self) -> list[PythonTool]:
        return self._tools


def bringing(functions: list[Callable[..., Any]], **options: Any) -> tuple[Feature]:
    return (Brings(python_tools(functions, **options)),)


def outputs(driver: Driver) -> dict[str, Any]:
    """What the last request told of each call."""
    items = driver.inputs[-1]
    return {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}


def ends(driver: Driver) -> dict[str, PythonToolCallEnd]:
    found = [event.msg for event in driver.events if isinstance(event.msg, PythonToolCallEnd)]
    return {msg.call_id: msg for msg in found}


async def refused(bench: Bench, made: PythonTool, arguments: Any = None) -> str:
    """What the model reads of a call that fails."""
    with pytest.raises(ToolError) as caught:
        await bench.run(made, {} if arguments is None else arguments)
    [end] = bench.of(PythonToolCallEnd)
    assert not end.success and end.error == str(caught.value) and end.result is None
    return str(caught.value)


# ---- the decorator -----------------------------------------------------------------------------------


@tool
def lookup(ticket: int, fields: list[str] | None = None) -> dict[str, Any]:
    """Read one ticket.

    Args:
        ticket: its number
    """
    return {"ticket": ticket, "fields": fields}


def test_a_decorated_function_is_still_the_function() -> None:
    assert lookup(3) == {"ticket": 3, "fields": None} and lookup.__name__ == "lookup"


def test_the_specification_is_a_plain_function() -> None:
    assert PythonTool(lookup).spec() == {
        "type": "function",
        "name": "lookup",
        "description": "Read one ticket.",
        "strict": False,
        "parameters": {
            "type": "object",
            "properties": {
                "ticket": {"type": "integer", "description": "its number"},
                "fields": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            },
            "required": ["ticket"],
            "additionalProperties": False,
        },
    }


def test_options_of_the_decorator_count() -> None:
    @tool(name="other-name", description="Other words.", parallel=False)
    def function(a: int) -> None:
        """Not this."""

    made = PythonTool(function)
    assert (made.name, made.spec()["description"], made.parallel) == ("other-name", "Other words.", False)
    assert PythonTool(lookup).parallel is True


def test_one_function_can_become_two_tools_and_methods_can_be_marked() -> None:
    class Shop:
        @tool(name="buy-it")
        def buy(self, what: str) -> str:
            return what

        def sell(self, what: str) -> str:
            return what

    def plain(a: int) -> int:
        return a

    one, two = tool(name="one")(plain), tool(name="two")(plain)
    made = python_tools([one, two, Shop().buy, tool(name="sell-it")(Shop().sell)])
    assert [each.name for each in made] == ["one", "two", "buy-it", "sell-it"]
    assert list(made[2].spec()["parameters"]["properties"]) == ["what"]


def test_types_that_a_marked_function_names_are_found_where_it_was_marked() -> None:
    @dataclasses.dataclass
    class Local:
        a: int

    @tool
    def use(it: Local) -> str:
        return "used"

    with ThreadPoolExecutor(1) as elsewhere:
        [made] = elsewhere.submit(python_tools, [use]).result()
    assert list(made.spec()["parameters"]["properties"]["it"]["properties"]) == ["a"]


def test_a_type_that_cannot_be_described_is_refused_when_the_function_is_marked() -> None:
    with pytest.raises(ToolDefinitionError, match="its parameter it: the type complex"):

        @tool
        def use(it: complex) -> None: ...


def star(*args: int) -> None: ...
def stars(**kwargs: int) -> None: ...
def twin() -> None: ...
def exec_command(cmd: str) -> None: ...
def mcp__a__b() -> None: ...


def renamed(name: str) -> Callable[[], None]:
    return tool(name=name)(lambda: None)


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ([star], "star"),
        ([stars], "stars"),
        ([twin, twin], "twin"),
        ([lookup, renamed("lookup")], "lookup"),
        ([exec_command], "exec_command"),
        ([renamed("apply_patch")], "apply_patch"),
        ([mcp__a__b], "mcp__a__b"),
        ([renamed("taken")], "taken"),
        ([3], "3"),
        ("twin", "str"),
        (twin, "function"),
    ],
)
def test_tools_that_cannot_be_are_refused_by_name(functions: Any, words: str) -> None:
    with pytest.raises(ToolDefinitionError, match=words):
        python_tools(functions, taken=["taken"])


@pytest.mark.parametrize(
    "options",
    [
        {"parallel": "no"},
        *({"timeout": seconds} for seconds in (0, -1, "1", True, float("nan"), float("inf"))),
        *({"approval": "yes"}, {"name": "a b"}, {"description": 3}),
    ],
)
def test_an_option_that_cannot_be_is_refused_when_the_function_is_marked(options: dict[str, Any]) -> None:
    def fresh() -> None: ...

    tool(name="fine", timeout=1.5, approval=lambda arguments: True)(fresh)
    with pytest.raises(ToolDefinitionError):
        tool(**options)(fresh)


def test_every_tool_that_a_model_may_get_by_default_has_a_name_that_is_kept_for_it() -> None:
    offered = build_tools(ToolChoice(patch_type="freeform", jit_tools=JIT_TOOLS)).specs
    names = {spec.get("name", spec["type"]) for spec in offered}
    assert names <= BUILT_IN, names - BUILT_IN


def test_type_hints_of_what_users_see_can_be_resolved() -> None:
    for public in (tool, Image.__init__, ToolContext.emit, ToolContext):
        typing.get_type_hints(public)
    for module in (functions, tool_results):
        for name, member in vars(module).items():
            if callable(member) and getattr(member, "__module__", "") == module.__name__ and not name.startswith("_"):
                typing.get_type_hints(member)


# ---- in a session ------------------------------------------------------------------------------------


async def test_functions_are_offered_last_in_their_order_and_their_calls_are_answered(start: Start) -> None:
    def shout(text: str) -> str:
        """Say it loud."""
        return text.upper()

    driver = await start(
        calls("lookup", {"ticket": 7, "fields": ["a"]}, "c1"),
        calls("shout", {"text": "hey"}, "c2"),
        says("done"),
        features=bringing([lookup, shout]),
    )
    msgs = await driver.turn("go")
    lists = [request.raw.tools for request in driver.model.requests]
    assert lists[0] == lists[1] == lists[2]
    assert [spec.get("name") for spec in json.loads(lists[0])][-2:] == ["lookup", "shout"]
    assert outputs(driver) == {"c1": '{"ticket":7,"fields":["a"]}', "c2": "HEY"}
    begins = [msg for msg in msgs if isinstance(msg, PythonToolCallBegin)]
    assert [(msg.call_id, msg.tool, msg.arguments) for msg in begins] == [
        ("c1", "lookup", {"ticket": 7, "fields": ["a"]}),
        ("c2", "shout", {"text": "hey"}),
    ]
    end = ends(driver)["c2"]
    assert (end.tool, end.success, end.result, end.error) == ("shout", True, "HEY", None) and end.duration_ms >= 0


async def test_what_goes_wrong_is_told_to_the_model_and_the_turn_goes_on(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def boom(n: int) -> str:
        seen.append(n)
        raise KeyError("lost it")

    def told() -> str:
        raise ToolError("use another one")

    driver = await start(
        [
            calls("boom", {"n": 3}, "c1"),
            calls("told", {}, "c2"),
            calls("boom", {"n": "three"}, "c3"),
            calls("boom", {}, "c4"),
        ],
        says("recovered"),
        features=bringing([boom, told]),
    )
    with caplog.at_level(logging.DEBUG, "spindle.tools"):
        msgs = await driver.turn("go")
    assert outputs(driver) == {
        "c1": "KeyError: 'lost it'",
        "c2": "use another one",
        "c3": "invalid arguments for boom: n: expected `int`, got `str`",
        "c4": "invalid arguments for boom: n: is missing",
    }
    assert seen == [3] and tags(msgs)[-1] == "task_complete"
    assert [end.success for end in ends(driver).values()] == [False] * 4
    [record] = caplog.records
    assert record.name == "spindle.tools" and record.exc_info is not None and record.exc_info[0] is KeyError
    assert not any(isinstance(msg, Warning) for msg in msgs)


async def test_a_call_of_a_function_that_is_not_there_after_resume_is_answered_with_an_error(start: Start) -> None:
    first = await start(calls("lookup", {"ticket": 1}, "c1"), says("ok"), features=bringing([lookup]))
    await first.turn("go")
    await first.close()
    again = await start(calls("lookup", {"ticket": 2}, "c2"), says("ok"), thread=first.session.thread_id)
    msgs = await again.turn("go on")
    assert "unsupported call: lookup" in outputs(again)["c2"] and tags(msgs)[-1] == "task_complete"
    assert "lookup" not in [spec.get("name") for spec in again.model.requests[0].tools]


async def test_a_function_with_approval_asks_first(start: Start) -> None:
    done: list[str] = []

    @tool(approval=True)
    def wipe(what: str) -> str:
        done.append(what)
        return "wiped"

    driver = await start(
        calls("wipe", {"what": "a"}, "c1"),
        calls("wipe", {"what": "b"}, "c2"),
        calls("wipe", {"what": "c"}, "c3"),
        says("end"),
        approval="on-request",
        features=bringing([wipe]),
    )
    turn = driver.begin("go")
    for call_id, decision in (("c1", "denied"), ("c2", "approved_for_session")):
        asked = await driver.until(ElicitationRequest)
        assert isinstance(asked, ElicitationRequest)
        assert (asked.kind, asked.call_id, asked.server_name) == ("tool_approval", call_id, "")
        assert asked.invocation == {"tool": "wipe", "arguments": {"what": "a" if call_id == "c1" else "b"}}
        assert "MCP" not in asked.message + asked.if_approved + json.dumps(asked.offers)
        driver.submit(ResolveElicitation(server_name="", request_id=call_id, decision=decision))
    await driver.end_of(turn)
    assert done == ["b", "c"], "granted for the session: the third is not asked about"
    assert outputs(driver)["c2"] == "wiped" and "rejected" in outputs(driver)["c1"]
    assert ends(driver)["c1"].success is False


async def test_where_nobody_can_be_asked_a_function_with_approval_is_refused(start: Start) -> None:
    @tool(approval=lambda arguments: arguments["force"])
    def wipe(what: str, force: bool = True) -> str:
        return "wiped"

    driver = await start(
        [calls("wipe", {"what": "a"}, "c1"), calls("wipe", {"what": "a", "force": False}, "c2")],
        says("end"),
        features=bringing([wipe], can_ask=False),
    )
    await driver.turn("go")
    assert outputs(driver)["c1"].startswith("wipe rejected: approval is needed") and outputs(driver)["c2"] == "wiped"


async def test_an_interrupt_cancels_coroutines_and_tells_functions(start: Start) -> None:
    begun, told, cancelled = threading.Event(), threading.Event(), threading.Event()

    async def waits_long() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    def works_long(ctx: ToolContext) -> str:
        begun.set()
        assert ctx.cancelled.wait(20)
        told.set()
        return "dropped"

    driver = await start(
        [calls("waits_long", {}, "c1"), calls("works_long", {}, "c2")],
        features=bringing([waits_long, works_long]),
    )
    turn = driver.begin("go")
    await asyncio.to_thread(begun.wait, 20)
    driver.submit(Interrupt())
    msgs = await driver.end_of(turn)
    assert isinstance(msgs[-1], TurnAborted)
    assert await asyncio.to_thread(told.wait, 20) and cancelled.is_set()
    assert {end.error for end in ends(driver).values()} == {"interrupted"}
    await driver.turn("more", says("fine"))
    assert all(output.startswith("aborted by user") for output in outputs(driver).values())


async def test_calls_of_one_response_overlap_and_those_that_must_be_alone_are(start: Start) -> None:
    both = threading.Barrier(2, timeout=20)
    running: list[str] = []
    beside: list[list[str]] = []

    async def first() -> str:
        await asyncio.to_thread(both.wait)
        return "A"

    def second() -> str:
        both.wait()
        return "B"

    @tool(parallel=False)
    def alone(name: str) -> str:
        running.append(name)
        beside.append(list(running))
        running.remove(name)
        return name

    driver = await start(
        [
            calls("first", {}, "a"),
            calls("second", {}, "b"),
            calls("alone", {"name": "x"}, "c"),
            calls("alone", {"name": "y"}, "d"),
        ],
        says("ok"),
        features=bringing([first, second, alone]),
    )
    await driver.turn("go")
    assert outputs(driver) == {"a": "A", "b": "B", "c": "x", "d": "y"} and beside == [["x"], ["y"]]


async def test_progress_is_told_while_the_function_runs(start: Start) -> None:
    go = threading.Event()

    def slow(ctx: ToolContext) -> str:
        ctx.emit("half")
        assert go.wait(20)
        ctx.emit("nearly")
        return f"{ctx.cwd} {ctx.call_id} {bool(ctx.thread_id and ctx.turn_id)}"

    driver = await start(calls("slow", {}, "c1"), says("ok"), features=bringing([slow]))
    turn = driver.begin("go")
    told = await driver.until(PythonToolCallProgress)
    assert isinstance(told, PythonToolCallProgress) and (told.text, told.call_id) == ("half", "c1")
    go.set()
    msgs = await driver.end_of(turn)
    kinds = [type(msg).__name__ for msg in msgs if type(msg).__name__.startswith("PythonTool")]
    assert kinds == ["PythonToolCallBegin", *["PythonToolCallProgress"] * 2, "PythonToolCallEnd"]
    assert outputs(driver)["c1"].endswith(" c1 True")


async def test_secrets_in_results_and_progress_are_masked(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-abcdefghijklmnopqrstuvwxyz123456")

    def leak(ctx: ToolContext) -> str:
        ctx.emit("the key is sk-abcdefghijklmnopqrstuvwxyz123456")
        return "sk-abcdefghijklmnopqrstuvwxyz123456"

    driver = await start(calls("leak", {}, "c1"), says("ok"), features=bringing([leak]))
    msgs = await driver.turn("go")
    assert "abcdefghij" not in str([msg for msg in msgs if type(msg).__name__.startswith("PythonTool")])
    assert "abcdefghij" not in outputs(driver)["c1"]


async def test_long_results_are_cut_like_any_output(start: Start) -> None:
    def much() -> str:
        return "x" * 3_000_000

    driver = await start(calls("much", {}, "c1"), says("ok"), features=bringing([much]))
    await driver.turn("go")
    assert len(outputs(driver)["c1"]) < 200_000
    assert len(ends(driver)["c1"].result or "") < 1_100_000


async def test_two_hundred_functions_may_wait_at_the_same_time(bench: Bench) -> None:
    count = 200
    everyone = threading.Barrier(count, timeout=30)

    def meet() -> int:
        return everyone.wait()

    made = PythonTool(meet)
    got = await asyncio.gather(*(bench.run(made, {}, f"c{number}") for number in range(count)))
    assert sorted(map(int, got)) == list(range(count))


# ---- one call ----------------------------------------------------------------------------------------

RESULTS: list[tuple[Any, str]] = [
    ("text\n", "text\n"),
    ("", ""),
    (None, ""),
    (5, "5"),
    (True, "true"),
    (1.5, "1.5"),
    ("lone \ud800", "lone ?"),
    ({"a": [1, None]}, '{"a":[1,null]}'),
    (["a", "b"], '["a","b"]'),
    (("a", 1), '["a",1]'),
    ({"k": "\ud800"}, '{"k":"?"}'),
    ({1: "a"}, '{"1":"a"}'),
    (Colour.RED, '"red"'),
    (Point(1, 2), '{"x":1,"y":2}'),
    (Plant(3), '{"type":"plant","leaves":3,"tall":false}'),
    (Model(name="n"), '{"name":"n","count":1,"where":null}'),
    ([Model(name="n")], '[{"name":"n","count":1,"where":null}]'),
    (pathlib.PurePosixPath("a/b"), '"a/b"'),
    (b"a", '"YQ=="'),
    ({"path": pathlib.PurePosixPath("x")}, '{"path":"x"}'),
    ([], "[]"),
]


@pytest.mark.parametrize(("value", "text"), RESULTS, ids=lambda value: ascii(value)[:30])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_result_is_told_as(bench: Bench, value: Any, text: str, is_async: bool) -> None:
    async def later() -> Any:
        return value

    made = PythonTool(later if is_async else tool(name="now")(lambda: value))
    assert await bench.run(made, {}) == text
    [end] = bench.of(PythonToolCallEnd)
    assert end.success and end.result == text


def recursive() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda: object(), "TypeError: what it returned has a value of type object, which cannot be written as JSON"),
        (lambda: (number for number in range(3)), "TypeError: what it returned has a value of type generator, which"),
        (recursive, "ValueError: what it returned is nested too deep"),
        (lambda: {"a": Image(PNG)}, "TypeError: a picture can be returned by itself or in a list"),
        (lambda: [Image("/no/such/file.png")], "ImageError: "),
        (lambda: Image(b"no picture at all"), "ImageError: "),
        (lambda: Image(b""), "ImageError: "),
        (lambda: Image(3), "TypeError: an Image is made of a path or of bytes, not of int"),  # pyright: ignore
    ],
)
async def test_a_result_that_cannot_be_told_is_a_failure(bench: Bench, value: Callable[[], Any], words: str) -> None:
    assert (await refused(bench, PythonTool(tool(name="it")(value)))).startswith(words)


async def test_pictures_are_parts(bench: Bench, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "p.png"
    file.write_bytes(PNG)
    made = PythonTool(tool(name="it")(lambda: ["before", Image(file), Image(PNG), {"a": 1}]))
    result = await bench.result(made, {})
    assert isinstance(result.output, list)
    assert [part["type"] for part in result.output] == ["input_text", "input_image", "input_image", "input_text"]
    assert result.output[1] == result.output[2] and result.output[3]["text"] == '{"a":1}'
    assert result.output[1]["image_url"].startswith("data:image/png;base64,")
    [end] = bench.of(PythonToolCallEnd)
    assert end.result == 'before\n[image]\n[image]\n{"a":1}'


async def test_a_model_without_eyes_is_told_that_there_is_a_picture(bench: Bench) -> None:
    bench.accepts_images = False
    result = await bench.result(PythonTool(tool(name="it")(lambda: Image(PNG))), {})
    assert result.output == [{"type": "input_text", "text": "[a picture, which this model cannot see]"}]


class Rude(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


RAISED: list[tuple[BaseException, str]] = [
    (ValueError("no"), "ValueError: no"),
    (ValueError(), "ValueError"),
    (KeyError("k"), "KeyError: 'k'"),
    (ToolError("exactly this\n"), "exactly this\n"),
    (Rejected("not now"), "not now"),
    (StopIteration(3), "StopIteration: 3"),
    (asyncio.CancelledError(), "CancelledError"),
    (TimeoutError("mine"), "TimeoutError: mine"),
    (Rude(), "Rude"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (SystemExit(3), "SystemExit: 3"),
    (GeneratorExit(), "GeneratorExit"),
]


@pytest.mark.parametrize(("error", "words"), RAISED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_exception_is_told_by_name(bench: Bench, error: BaseException, words: str, is_async: bool) -> None:
    def now() -> None:
        raise error

    async def later() -> None:
        raise error

    text = await refused(bench, PythonTool(tool(timeout=20)(later if is_async else now)))
    assert text == words or (is_async and isinstance(error, StopIteration) and text.startswith("RuntimeError: "))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2)])
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_exit_is_handed_over_and_the_model_is_not_asked_again(
    start: Start, error: BaseException, is_async: bool
) -> None:
    def now() -> None:
        raise error

    async def later() -> None:
        raise error

    handed: list[BaseException] = []

    def on_exit(raised: BaseException) -> None:
        handed.append(raised)
        # Not at once: whoever hears of it may have to come from another thread.
        asyncio.get_running_loop().call_later(0.05, driver.submit, Interrupt())

    function = tool(name="it")(later if is_async else now)
    driver = await start(calls("it", {}, "c1"), says("never"), features=bringing([function], on_exit=on_exit))
    msgs = await driver.turn("go")
    assert handed == [error] and isinstance(msgs[-1], TurnAborted) and len(driver.model.requests) == 1


async def test_a_function_that_takes_too_long_is_given_up(bench: Bench) -> None:
    told = threading.Event()

    @tool(timeout=0.01)
    def slow(ctx: ToolContext) -> None:
        if ctx.cancelled.wait(20):
            told.set()

    assert await refused(bench, PythonTool(slow)) == "slow took longer than 0.01 seconds and was given up"
    assert await asyncio.to_thread(told.wait, 20)


async def test_what_a_function_says_after_it_was_given_up_is_not_heard(bench: Bench) -> None:
    done = threading.Event()

    @tool(timeout=0.01)
    def slow(ctx: ToolContext) -> None:
        ctx.cancelled.wait(20)
        ctx.emit("late")
        done.set()

    await refused(bench, PythonTool(slow))
    assert await asyncio.to_thread(done.wait, 20)
    await asyncio.sleep(0)
    assert bench.of(PythonToolCallProgress) == []


async def test_a_coroutine_that_takes_too_long_is_cancelled(bench: Bench) -> None:
    cancelled: list[bool] = []

    @tool(timeout=0.01)
    async def slow(ctx: ToolContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    assert await refused(bench, PythonTool(slow)) == "slow took longer than 0.01 seconds and was given up"
    assert cancelled == [True]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("not json", "invalid arguments for lookup: they must be a JSON object"),
        ("[1]", "invalid arguments for lookup: they must be a JSON object"),
        ("null", "invalid arguments for lookup: they must be a JSON object"),
        ("[" * 5000, "invalid arguments for lookup: they must be a JSON object"),
        ('{"ticket":' * 300 + "1" + "}" * 300, "invalid arguments for lookup: they must be a JSON object"),
        (
            '{"ticket": ' + "[" * 100 + "]" * 100 + "}",
            "invalid arguments for lookup: ticket: expected `int`, got `array`",
        ),
        ("", "invalid arguments for lookup: ticket: is missing"),
        ('{"ticket": 1e400}', "invalid arguments for lookup: "),
        ('{"ticket": NaN}', "invalid arguments for lookup: "),
        ('{"ticket": 1, "ticket ": 2}', "invalid arguments for lookup: ticket : is not known"),
        ('{"ticket": 1, "self": 2}', "invalid arguments for lookup: self: is not known"),
        ('{"ticket": 1, "fields": "abc"}', "invalid arguments for lookup: fields: expected `array`, got `str`"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_hostile_arguments_never_reach_the_function(bench: Bench, arguments: str, words: str) -> None:
    assert (await refused(bench, PythonTool(lookup), arguments)).startswith(words)


async def test_huge_arguments_are_told_in_a_short_line(bench: Bench) -> None:
    def pick(word: typing.Literal["a"], point: Point) -> None: ...

    text = await refused(bench, PythonTool(pick), {"word": "x" * 1_000_000, "point": {"x": "y" * 1_000_000}})
    assert len(text) < 300


async def test_a_type_that_fails_while_it_is_made_is_an_error_for_the_model(bench: Bench) -> None:
    @dataclasses.dataclass
    class Picky:
        a: int

        def __post_init__(self) -> None:
            raise KeyError("picky")

    class Checked(pydantic.BaseModel):
        a: int

        @pydantic.field_validator("a")
        @classmethod
        def never(cls, value: int) -> int:
            raise ValueError("never good")

    def first(it: Picky) -> None: ...
    def second(it: Checked) -> None: ...

    assert (
        await refused(bench, PythonTool(first), {"it": {"a": 1}})
        == "invalid arguments for first: it: KeyError: 'picky'"
    )
    bench.events.clear()
    assert "never good" in await refused(bench, PythonTool(second), {"it": {"a": 1}})


async def test_a_predicate_that_fails_lets_nothing_run(bench: Bench) -> None:
    done: list[int] = []

    @tool(approval=lambda arguments: arguments["nothing"])
    def act(a: int) -> None:
        done.append(a)

    assert await refused(bench, PythonTool(act), {"a": 1}) == "KeyError: 'nothing'" and done == []


async def test_a_predicate_may_be_a_coroutine_and_sees_what_the_function_would_get(bench: Bench) -> None:
    seen: list[dict[str, Any]] = []

    async def dangerous(arguments: dict[str, Any]) -> bool:
        seen.append(arguments)
        return True

    @tool(approval=dangerous)
    def act(at: Point, word: str = "w") -> str:
        return word

    bench.refusal = Rejected("no", by_user=True)
    assert await refused(bench, PythonTool(act), {"at": {"x": 1}}) == "no"
    assert seen == [{"at": Point(1), "word": "w"}]
    assert bench.asked == [{"function": "act", "arguments": {"at": {"x": 1}}}]


async def test_a_function_that_gives_a_coroutine_is_awaited(bench: Bench) -> None:
    async def inner() -> str:
        return "awaited"

    assert await bench.run(PythonTool(tool(name="it")(lambda: inner())), {}) == "awaited"


async def test_context_variables_of_the_caller_are_seen_in_the_thread(bench: Bench) -> None:
    import contextvars

    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    assert await bench.run(PythonTool(tool(name="it")(lambda: variable.get())), {}) == "set"


async def test_functions_run_outside_the_loop_and_coroutines_on_it(bench: Bench) -> None:
    home = threading.get_ident()

    async def on_loop() -> bool:
        return threading.get_ident() == home

    assert await bench.run(PythonTool(tool(name="it")(lambda: threading.get_ident() == home)), {}) == "false"
    assert await bench.run(PythonTool(on_loop), {}) == "true"
    for thread in threading.enumerate():
        if thread.name.startswith("spindle it"):
            thread.join(20)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("spindle it")]


def test_without_a_handler_nothing_is_printed() -> None:
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("spindle.tools").handlers)


def test_a_tool_context_can_be_made_for_a_test_of_the_function() -> None:
    said: list[str] = []
    ToolContext().emit("nobody hears it")
    context = ToolContext(cwd="/x", on_emit=said.append)
    context.emit("one")
    assert said == ["one"] and context.cwd == "/x" and not context.cancelled.is_set()


def test_front_ends_that_never_have_functions_pass_their_events_over() -> None:
    msgs = [
        PythonToolCallBegin(call_id="c", turn_id="t", tool="f", arguments={}),
        PythonToolCallProgress(call_id="c", turn_id="t", text="half"),
        PythonToolCallEnd(call_id="c", turn_id="t", tool="f", arguments={}, success=True, result="r"),
    ]
    transcript = Transcript(Look(), version="1", summary="auto")
    translator = Translator("thread", lambda: "id")
    translator.translate(Event("t", TaskStarted(turn_id="t", model_context_window=None)), 0)
    for msg in msgs:
        assert transcript.translate(msg) == "" and translator.translate(Event("t", msg), 0) == []
