"""What a program gives to a thread, through the client: functions, callbacks, types, a model of its own."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from api.homes import Client, run_program
from spindle import ApprovalRequest, CallbackError, Image, TurnFailed, tool
from spindle.models import (
    Completed,
    ItemAdded,
    ItemDone,
    ModelClient,
    ModelError,
    ModelEvent,
    Request,
    TextDelta,
    TurnState,
)
from spindle.testing import ScriptedModel, calls, says
from spindle.types import AgentMessage, ItemDelta, ItemStarted


def outputs(model: ScriptedModel) -> dict[str, Any]:
    """What the last request told of each call."""
    items = model.requests[-1].input
    return {item["call_id"]: item["output"] for item in items if item["type"] == "function_call_output"}


def test_functions_that_run_alone_run_after_the_others_of_the_response(client: Client, workspace: Path) -> None:
    order: list[str] = []

    @tool(parallel=False)
    def alone(name: str) -> str:
        """Runs alone."""
        order.append(name)
        return name

    def beside(name: str) -> str:
        """Runs beside others."""
        order.append(name)
        return name

    model = ScriptedModel(
        [
            calls("alone", {"name": "first"}, "c1"),
            calls("beside", {"name": "second"}, "c2"),
            calls("alone", {"name": "third"}, "c3"),
            calls("beside", {"name": "again"}, "c1"),  # an id that was used: it is answered after the other
            calls("exec_command", {"cmd": "true"}, "c4"),
        ],
        says("end"),
    )
    client(model_client=model).thread_start(cwd=workspace, tools=[alone, beside]).run("x")
    assert order == ["second", "first", "third", "again"]
    answered = [item["call_id"] for item in model.requests[-1].input if item["type"] == "function_call_output"]
    assert answered == ["c1", "c2", "c3", "c1", "c4"]


def test_a_function_with_approval_asks_whatever_the_policy(client: Client, workspace: Path) -> None:
    asked: list[ApprovalRequest] = []

    @tool(approval=True)
    def wipe() -> str:
        """Dangerous."""
        return "wiped"

    def ask(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    model = ScriptedModel(calls("wipe", {}, "c1"), says("a"), calls("wipe", {}, "c2"), says("b"))
    spindle = client(model_client=model)
    spindle.thread_start(cwd=workspace, tools=[wipe], on_approval=ask, approval_policy="never").run("x")
    assert [request.kind for request in asked] == ["tool"] and outputs(model) == {"c1": "wiped"}
    spindle.thread_start(cwd=workspace, tools=[wipe]).run("x")
    assert outputs(model) == {"c2": "wipe rejected: approval is needed for this tool, but nobody can be asked"}


def test_a_stream_raises_what_a_callback_raised(client: Client, workspace: Path) -> None:
    def ask(request: ApprovalRequest) -> bool:
        raise ZeroDivisionError("oops")

    spindle = client(calls("exec_command", {"cmd": "touch a"}, "c1"))
    thread = spindle.thread_start(cwd=workspace, approval_policy="untrusted", on_approval=ask)
    with pytest.raises(CallbackError) as caught:
        list(thread.stream("x"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_client_is_closed_without_a_word_while_a_callback_blocks(own_home: Path, workspace: Path) -> None:
    source = """
        import gc, threading
        from spindle import Spindle
        from spindle.testing import ScriptedModel, calls
        asked, closed = threading.Event(), threading.Event()
        def ask(request):
            asked.set()
            closed.wait()
        model = ScriptedModel(calls("exec_command", {"cmd": "touch a"}, "c1"))
        with Spindle(home=HOME_FOLDER, model_client=model) as spindle:
            thread = spindle.thread_start(cwd=CWD, approval_policy="untrusted", on_approval=ask)
            turn = thread.turn("x")
            asked.wait()
            turn.interrupt()
        closed.set()
        [thread.join() for thread in threading.enumerate() if thread.name == "spindle on_approval"]
        gc.collect()
        print("closed")
    """
    done = run_program(source, own_home, workspace)
    assert (done.stdout, done.stderr) == ("closed\n", "")


def test_types_of_the_calling_function_are_found(client: Client, workspace: Path) -> None:
    @dataclasses.dataclass
    class Place:
        city: City

    @dataclasses.dataclass
    class City:
        name: str

    def visit(place: Place) -> str:
        """Go there."""
        return place.city.name

    bonn, ulm = {"place": {"city": {"name": "Bonn"}}}, '{"city": {"name": "Ulm"}}'
    model = ScriptedModel(calls("visit", bonn, "c1"), says(ulm))
    result = client(model_client=model).thread_start(cwd=workspace, tools=[visit]).run("x", output_type=Place)
    assert outputs(model) == {"c1": "Bonn"} and result.output == Place(City("Ulm"))


def test_a_thread_does_not_hold_on_to_the_function_that_opened_it(client: Client, workspace: Path) -> None:
    class Heavy:
        pass

    spindle = client(says("a"))

    def open_one() -> weakref.ref[Heavy]:
        heavy = Heavy()
        spindle.thread_start(cwd=workspace).run("x")
        return weakref.ref(heavy)

    held = open_one()
    gc.collect()
    assert held() is None


def test_a_picture_that_cannot_be_read_is_named(client: Client, workspace: Path) -> None:
    def show() -> Any:
        """Show it."""
        return Image(workspace / "none.png")

    model = ScriptedModel(calls("show", {}, "c1"), says("end"))
    client(model_client=model).thread_start(cwd=workspace, tools=[show]).run("x")
    assert str(workspace / "none.png") in outputs(model)["c1"]


def test_a_model_client_without_length_is_used_all_the_same(client: Client, workspace: Path) -> None:
    class Empty(ScriptedModel):
        def __len__(self) -> int:
            return 0

    thread = client(says("of the client")).thread_start(cwd=workspace, model_client=Empty(says("of the thread")))
    assert thread.run("x").final_response == "of the thread"


def test_functions_are_hooks_also_where_configured_ones_are_off(client: Client, workspace: Path) -> None:
    heard: list[str] = []
    spindle = client(says("a"), config={"features.hooks": False})
    hooks = {"UserPromptSubmit": [lambda data: heard.append(data["prompt"])]}
    spindle.thread_start(cwd=workspace, hooks=hooks).run("x")
    assert heard == ["x"]


class Careless:
    """A model client that says no more than it must."""

    def __init__(self, *events: Any) -> None:
        self.events = events
        self.is_closed = False

    async def stream(self, request: Request, turn_state: TurnState | None) -> AsyncGenerator[ModelEvent, None]:
        for event in self.events:
            yield event

    async def compact(self, request: Request) -> list[dict[str, Any]]:
        raise ModelError("this model cannot shorten a thread")

    async def warm(self) -> None:
        raise OSError("cold")

    async def aclose(self) -> None:
        self.is_closed = True


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **more}


CALL = {"type": "function_call", "name": "look", "arguments": "{}", "call_id": "c1", "id": "f1"}


@pytest.mark.parametrize(
    "events",
    [
        [TextDelta("", "Hel"), TextDelta("", "lo"), ItemDone(message("Hello")), ItemDone(message("you"))],
        [TextDelta("m1", "Hel"), TextDelta("m1", "lo"), ItemDone(message("Hello", id="m1")), ItemDone(message("you"))],
        [TextDelta("m1", "Hello"), ItemDone(message("Hello")), TextDelta("m2", "you"), ItemDone(message("you"), "m2")],
        [
            ItemAdded(message("", id="m1")),
            TextDelta("m1", "Hello"),
            ItemDone(message("Hello")),
            ItemDone(message("you")),
        ],
        [TextDelta("", "Hel"), ItemDone({**CALL, "type": "other"}), TextDelta("", "lo"), ItemDone(message("Hello"))],
    ],
)
def test_the_items_of_a_careless_model_have_one_name_from_beginning_to_end(
    client: Client, workspace: Path, events: list[Any]
) -> None:
    model = Careless(*events, Completed())
    thread = client(model_client=model).thread_start(cwd=workspace)
    stream = thread.stream("x")
    begun: list[str] = []
    texts: dict[str, str] = {}
    for event in stream:
        if isinstance(event, ItemStarted):
            begun.append(event.item.id)
        elif isinstance(event, ItemDelta):
            assert event.item_id in begun
            texts[event.item_id] = texts.get(event.item_id, "") + event.delta
    said = {item.id: item.text for item in stream.result.items if isinstance(item, AgentMessage)}
    assert texts == said and list(said) == begun and "Hello" in said.values()
    thread.close()
    assert isinstance(model, ModelClient) and not model.is_closed


def test_a_model_client_without_events_is_an_error_in_one_sentence(client: Client, workspace: Path) -> None:
    class Silent(Careless):
        async def stream(self, request: Request, turn_state: TurnState | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return list(self.events)

    thread = client(model_client=Silent()).thread_start(cwd=workspace)
    with pytest.raises(TurnFailed, match=r"Silent\.stream gives no events"):
        thread.run("x")


@pytest.mark.parametrize("event", ["a text", None, ItemDone("a text")])  # pyright: ignore[reportArgumentType]
def test_what_a_model_client_yields_that_is_no_event_is_named_and_not_lost(
    client: Client, workspace: Path, event: Any
) -> None:
    thread = client(model_client=Careless(event, Completed())).thread_start(cwd=workspace)
    with pytest.raises(TurnFailed, match=r"Careless\.stream gave "):
        thread.run("x")


@pytest.mark.parametrize("wrong", ["hello", None, 3])
def test_what_is_no_step_of_a_script_is_named(client: Client, workspace: Path, wrong: Any) -> None:
    thread = client(wrong, lambda request: wrong).thread_start(cwd=workspace)
    for _ in range(2):
        with pytest.raises(TurnFailed, match="is not a step of a script"):
            thread.run("x")
