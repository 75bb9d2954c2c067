"""Servers that are broken, or mean harm: the turn works, and a person hears which server it is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, Turn, call, message, turn
from installed import Spindle
from mcp_servers.kit import of_servers, servers, stub
from mcp_servers.test_servers import warnings
from sessions import Start, outputs, tags
from spindle.mcp.naming import clean_parameters, full_name
from spindle.model.scripted import calls, says
from spindle.protocol.ops import ResolveElicitation
from spindle.protocol.tool_servers import ElicitationRequest, McpToolCallEnd
from spindle.tools.mcp_output import model_output


@pytest.mark.parametrize("start_with", ["flood", "garbage"])
async def test_noise_before_the_handshake_is_no_trouble(start: Start, tmp_path: Path, start_with: str) -> None:
    entry = stub({"tools": ["a"], "start": start_with})
    driver = await start(calls("mcp__tiny__a", {}, "c1"), says("done"), config=servers(tiny=entry))
    await driver.turn("hello")
    assert outputs(driver.inputs[-1])["c1"].endswith("a:{}") and warnings(driver) == []
    log = tmp_path / "codex-home/log/mcp-tiny.log"
    assert 0 < log.stat().st_size < 600_000 and log.stat().st_mode & 0o077 == 0


async def test_a_line_without_end_ends_the_server_and_not_us(start: Start) -> None:
    driver = await start(says("done"), config=servers(tiny=stub({"start": "big_line"})))
    assert tags(await driver.turn("hello"))[-1] == "task_complete"
    assert warnings(driver) == ["MCP server tiny is missing: the server sent a line longer than 16 MiB"]


async def test_an_answer_under_a_wrong_id_answers_nothing(start: Start) -> None:
    entry = stub({"tools": ["a"], "wrong_id": True}, tool_timeout_sec=0.3)
    driver = await start(calls("mcp__tiny__a", {}, "c1"), says("done"), config=servers(tiny=entry))
    await driver.turn("hello")
    assert outputs(driver.inputs[-1])["c1"] == 'err: "no answer to tools/call within 0.3 seconds"'


async def test_odd_names_become_plain_ones_and_of_two_equal_ones_one_stays(start: Start) -> None:
    names = ["read file", "read/file", "x" * 100, "ünï", ""]
    entry = stub({"tools": names})
    driver = await start(calls("mcp__tiny__read_file", {}, "c1"), says("done"), config=servers(tiny=entry))
    await driver.turn("hello")
    offered = of_servers(driver.model.requests[0])
    assert offered == sorted(["mcp__tiny__read_file", "mcp__tiny___n_", full_name("tiny", "x" * 100)])
    assert all(len(name) <= 64 for name in offered)
    assert outputs(driver.inputs[-1])["c1"].endswith("read file:{}")  # under the server's own name
    [skipped] = [text for text in warnings(driver) if "left out: its name becomes" in text]
    assert "'read/file'" in skipped and "'read file'" in skipped


def test_a_long_name_is_cut_and_stays_unlike_its_neighbours() -> None:
    one, two = full_name("tiny", "x" * 100), full_name("tiny", "x" * 101)
    assert one != two and len(one) == len(two) == 64 and one[:24] == two[:24] == "mcp__tiny__xxxxxxxxxxxxx"


async def test_nothing_in_a_description_is_hidden_from_people(start: Start) -> None:
    hidden = "Adds.\u202e\U000e0041\u200b\x1b[2J"
    schema = {"type": "object", "properties": {"n": {"type": "string", "description": hidden}}}
    tool = {"name": "add", "description": hidden, "inputSchema": schema}
    driver = await start(says("done"), config=servers(tiny=stub({"tools": [tool]})))
    await driver.turn("hello")
    [spec] = [t for t in driver.model.requests[0].tools if t.get("name") == "mcp__tiny__add"]
    for text in (spec["description"], spec["parameters"]["properties"]["n"]["description"]):
        assert not set("\u202e\U000e0041\u200b\x1b") & set(text) and "\\u{202E}" in text


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (None, {"type": "object", "properties": {}}),
        (True, {"type": "object", "properties": {}}),
        ("string", {"type": "object", "properties": {}}),
        ([], {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"type": "string"}, {"type": "object", "properties": {}}),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": {"type": "string"}}}),
        (
            {"properties": {"b": {"minimum": 1}, "a": {"enum": ["x"], "default": "x"}}},
            {
                "type": "object",
                "properties": {
                    "a": {"type": "string", "default": "x", "enum": ["x"]},
                    "b": {"type": "number", "minimum": 1},
                },
            },
        ),
        (
            {"properties": {"a": {"type": ["null", "integer"]}, "b": {"type": "array"}, "c": {"items": {}}}},
            {
                "type": "object",
                "properties": {
                    "a": {"type": "integer"},
                    "b": {"type": "array", "items": {"type": "string"}},
                    "c": {"type": "array", "items": {"type": "string"}},
                },
            },
        ),
        (
            {"properties": {"a": {"anyOf": [{"type": "string"}, {"properties": {}}]}, "b": {"const": 3}}},
            {
                "type": "object",
                "properties": {
                    "a": {"anyOf": [{"type": "string"}, {"type": "object", "properties": {}}]},
                    "b": {"type": "number", "const": 3},
                },
            },
        ),
    ],
)
def test_a_schema_is_made_one_that_model_servers_take(given: Any, sent: dict[str, Any]) -> None:
    cleaned = clean_parameters(given)
    assert cleaned == sent
    assert json.dumps(cleaned) == json.dumps(sent)  # in this order too


def test_the_order_in_which_a_server_lists_properties_does_not_show() -> None:
    one = {"type": "object", "properties": {"a": {"type": "string", "title": "t"}, "b": {}}, "required": ["b", "a"]}
    two = {"required": ["b", "a"], "properties": {"b": {}, "a": {"title": "t", "type": "string"}}, "type": "object"}
    assert json.dumps(clean_parameters(one)) == json.dumps(clean_parameters(two))


def test_a_bottomless_schema_has_an_end() -> None:
    deep: Any = {"type": "string"}
    for _ in range(500):
        deep = {"type": "object", "properties": {"x": deep}}
    assert json.dumps(clean_parameters(deep)).count('"x"') < 40


async def test_a_huge_schema_and_too_many_tools_are_left_out(start: Start) -> None:
    huge = {"name": "huge", "inputSchema": {"type": "object", "description": "x" * 70_000}}
    many = [f"t{n}" for n in range(600)]
    config = servers(one=stub({"tools": [huge, "a"]}), two=stub({"tools": many}))
    driver = await start(says("done"), config=config)
    await driver.turn("hello")
    offered = of_servers(driver.model.requests[0])
    assert [name for name in offered if "one" in name] == ["mcp__one__a"] and len(offered) == 513
    assert any("the schema of its tool 'huge' is too large" in text for text in warnings(driver))
    assert any("more than 512 tools" in text for text in warnings(driver))


async def test_a_tool_cannot_take_the_place_of_one_of_ours(start: Start) -> None:
    entry = stub({"tools": ["exec_command", "apply_patch"]})
    driver = await start(calls("exec_command", {"cmd": "echo ours"}, "c1"), says("done"), config=servers(tiny=entry))
    await driver.turn("hello")
    assert "ours" in outputs(driver.inputs[-1])["c1"] and "exec_command:" not in outputs(driver.inputs[-1])["c1"]


async def test_a_long_answer_is_cut_for_the_model_and_for_people(start: Start) -> None:
    entry = stub({"tools": ["a"], "long": 3_000_000})
    driver = await start(calls("mcp__tiny__a", {}, "c1"), says("done"), config=servers(tiny=entry))
    msgs = await driver.turn("hello")
    assert len(outputs(driver.inputs[-1])["c1"]) < 60_000
    [end] = [msg for msg in msgs if tags([msg]) == ["mcp_tool_call_end"]]
    assert len(json.dumps(end.result)) < 1_200_000  # pyright: ignore[reportAttributeAccessIssue]


# ---- the installed command -------------------------------------------------------------------------


def configure(home: Path, name: str, entry: dict[str, Any]) -> None:
    lines = [f"[mcp_servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    with (home / "config.toml").open("a") as file:
        file.write("\n" + "\n".join(lines) + "\n")


def test_nothing_a_server_prints_reaches_the_terminal(spindle: Spindle, server: FakeServer, home: Path) -> None:
    configure(home, "loud", stub({"tools": ["a"], "start": "flood"}))
    configure(home, "broken", stub({"start": "exit"}))
    server.script(turn(message("fine")))
    done = spindle("exec", "hi")
    assert (done.code, done.out) == (0, "fine\n")
    assert "noise" not in done.err
    [line] = [line for line in done.err.splitlines() if "broken" in line]
    assert line == "warning: MCP server broken is missing: the server ended with exit code 3: cannot find my licence"


def test_a_required_server_that_is_missing_ends_the_run_with_exit_code_1(
    spindle: Spindle, server: FakeServer, home: Path
) -> None:
    configure(home, "must", stub({"start": "exit"}, required=True))
    done = spindle("exec", "hi")
    assert done.code == 1 and server.requests == []
    assert "ERROR: the MCP server must is required and did not start" in done.err


def test_the_json_lines_show_a_call_from_its_start_to_its_end(spindle: Spindle, server: FakeServer, home: Path) -> None:
    failed = {"content": [{"type": "text", "text": "no"}], "structuredContent": {"n": 1}, "isError": True}
    configure(home, "tiny", stub({"tools": ["a", "b", "c"], "answers": {"b": failed}, "die_on": "c"}))
    server.script(
        *(turn(call(f"mcp__tiny__{tool}", {"text": tool}, f"c{tool}")) for tool in "abc"), turn(message("done"))
    )
    done = spindle("exec", "--json", "hi")
    lines = [json.loads(line) for line in done.out.splitlines()]
    shown = [(line["type"], line["item"]) for line in lines if line.get("item", {}).get("type") == "mcp_tool_call"]

    def item(number: int, tool: str, **more: Any) -> dict[str, Any]:
        base = {"id": f"item_{number}", "type": "mcp_tool_call", "server": "tiny", "tool": tool}
        return {**base, "arguments": {"text": tool}, "result": None, "error": None, "status": "in_progress", **more}

    text = {"content": [{"type": "text", "text": 'a:{"text": "a"}'}], "structured_content": None}
    error = {"content": failed["content"], "structured_content": {"n": 1}}
    assert shown == [
        ("item.started", item(0, "a")),
        ("item.completed", item(0, "a", result=text, status="completed")),
        ("item.started", item(1, "b")),
        ("item.completed", item(1, "b", result=error, status="failed")),
        ("item.started", item(2, "c")),
        (
            "item.completed",
            item(2, "c", error={"message": "the server ended with exit code 7"}, status="failed"),
        ),
    ]


def test_people_read_what_is_called_and_what_came_of_it(spindle: Spindle, server: FakeServer, home: Path) -> None:
    configure(
        home, "tiny", stub({"tools": ["a"], "answers": {"a": {"content": [{"type": "text", "text": "o\x1b[2Jk"}]}}})
    )
    server.script(turn(call("mcp__tiny__a", {}, "c1")), turn(message("done")))
    lines = spindle("exec", "hi").err.splitlines()
    at = lines.index("mcp: tiny/a started")
    assert "mcp: tiny/a succeeded in " in lines[at + 1] and lines[at + 2] == "  ok"


def is_alive(pid: int) -> bool:
    """Whether it runs; dead, it may still wait for somebody to take its exit code."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_server_dies_with_us_even_when_we_are_killed(
    spindle_cmd: list[str],
    environment: dict[str, str],
    server: FakeServer,
    home: Path,
    workspace: Path,
    tmp_path: Path,
) -> None:
    seen = tmp_path / "env"
    configure(home, "stubborn", stub({"tools": ["wait"], "wait_on": "wait", "env": str(seen)}))
    server.script(turn(call("mcp__stubborn__wait", {}, "c1")))
    running = subprocess.Popen(
        [*spindle_cmd, "exec", "--json", "hi"],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert running.stdout is not None
    for line in running.stdout:
        if b"mcp_tool_call" in line:
            break
    pid = json.loads(seen.read_text())["pid"]
    os.kill(pid, signal.SIGSTOP)  # it cannot see that its input has ended
    running.kill()
    running.wait(20)
    running.stdout.close()
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)


def test_servers_cost_little_on_the_way_to_the_first_request(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, home: Path, workspace: Path, tmp_path: Path
) -> None:
    from test_architecture import REPORTS_IMPORTS, reported_imports

    configure(home, "tiny", stub({"tools": ["a"]}))
    report = tmp_path / "stderr"
    loaded: list[str] = []

    def look(_: Any) -> Turn:
        loaded.append(report.read_text())
        return turn(message("done"))

    server.script(look)
    with report.open("w") as stderr:
        subprocess.run(
            [*spindle_cmd, "exec", "--json", "hello"],
            cwd=workspace,
            env={**environment, **REPORTS_IMPORTS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            timeout=50,
            check=True,
        )
    # While servers start, what tools need is loaded too; that costs nobody anything.
    ours = reported_imports(loaded[0])
    heavy = {"anyio", "email", "http", "httpx", "mcp", "pydantic", "tomlkit", "urllib", "hashlib", "spindle.mcp.http"}
    assert {name for name in ours if name in heavy or name.split(".")[0] in heavy} == set()
    assert "spindle.mcp.stdio" in ours


# ---- hidden characters -------------------------------------------------------------------------------

HIDDEN = "\u202eevil\u200b\U000e0041\x1b[31m\x07"


def places(text: str) -> list[dict[str, Any]]:
    """Schemas with the text in every place where a server can put one."""
    return [
        {"properties": {"a": {"enum": [text, "plain"]}}},
        {"properties": {"a": {"const": text}}},
        {"properties": {"a": {"type": "string", "default": text}}},
        {"properties": {"a": {"type": "object", "default": {text: [text]}}}},
        {"properties": {"a": {"examples": [{"x": text}]}}},
        {"properties": {text: {"type": "string"}}, "required": [text]},
        {"properties": {"a": {"type": "string", "format": text}}},
        {"properties": {"a": {"type": "string", "pattern": f"^[{text}]$"}}},
        {"patternProperties": {text: {"type": "string"}}},
        {"$defs": {text: {"title": text}}, "properties": {}},
        {"properties": {"a": {"type": "string", "enumNames": [text]}}},
        {"properties": {"a": {"type": "array", "items": {"anyOf": [{"const": text, "title": text}]}}}},
        {"x-note": {"deep": [text]}, text: text},
    ]


@pytest.mark.parametrize("schema", places(HIDDEN), ids=range(len(places(HIDDEN))))
def test_23_no_place_of_a_schema_hides_anything(schema: dict[str, Any]) -> None:
    shown = json.dumps(clean_parameters(schema), ensure_ascii=False)
    assert all(char.isprintable() for char in shown) and "evil" in shown


def test_23_ordinary_schemas_keep_their_bytes() -> None:
    schema = {
        "type": "object",
        "properties": {
            "colour": {"type": "string", "enum": ["röt", "赤", "👩‍💻", "❤️", "a b"], "default": "röt"},
            "path": {"type": "string", "pattern": r"^\w+\.(md|txt)$", "examples": ["a\nb", "tab\there"]},
        },
        "required": ["colour"],
    }
    assert clean_parameters(schema) == schema


def test_23_a_pattern_means_the_same_when_it_is_cleaned() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "^[^\x00-\x1f\u200b]+$"}}}
    cleaned = clean_parameters(schema)["properties"]["a"]["pattern"]
    assert cleaned.isprintable() and re.match(cleaned, "ok") and not re.match(cleaned, "\u200b")


async def test_23_a_form_hides_nothing_and_is_answered_in_the_servers_words(start: Start) -> None:
    form = {
        "type": "object",
        "properties": {f"na{HIDDEN}me": {"type": "string", "title": HIDDEN, "enum": [f"x{HIDDEN}", "y"]}},
    }
    entry = stub({"tools": ["a"], "elicit_on": "a", "form": form, "message": f"evil{HIDDEN}"})
    driver = await start(
        calls("mcp__tiny__a", {}, "c1"), says("done"), approval="on-request", config=servers(tiny=entry)
    )
    sub_id = driver.begin("hello")
    request = await driver.until(ElicitationRequest)
    assert all(char.isprintable() for char in json.dumps(request.requested_schema, ensure_ascii=False))
    assert request.message.startswith("evil") and request.message.isprintable()
    ((name, field),) = (request.requested_schema or {})["properties"].items()
    answer = {"server_name": "tiny", "request_id": request.id, "decision": "accept"}
    driver.submit(ResolveElicitation(**answer, content={name: field["enum"][0]}))
    await driver.end_of(sub_id)
    told = outputs(driver.inputs[-1])["c1"]
    assert json.loads(told[told.index("{") :])["content"] == {f"na{HIDDEN}me": f"x{HIDDEN}"}


async def test_23_a_list_of_resources_hides_nothing(start: Start) -> None:
    entry = stub({"resources": [{"uri": "a://1", "name": HIDDEN, "description": HIDDEN, "x": {HIDDEN: [HIDDEN]}}]})
    driver = await start(calls("list_mcp_resources", {}, "c1"), says("done"), config=servers(tiny=entry))
    msgs = await driver.turn("hello")
    assert outputs(driver.inputs[-1])["c1"].isprintable()
    (shown,) = [json.loads(msg.result["Ok"]["content"][0]["text"]) for msg in msgs if isinstance(msg, McpToolCallEnd)]
    assert "a://1" in str(shown) and json.dumps(shown, ensure_ascii=False).isprintable()


@pytest.mark.parametrize(
    "answer",
    [
        {"content": [{"type": "text", "text": f"evil{HIDDEN}"}]},
        {"structuredContent": {f"evil{HIDDEN}": [f"x{HIDDEN}"]}},
        {"content": [{"type": "resource_link", "uri": f"a://{HIDDEN}", "name": f"evil{HIDDEN}"}]},
        {"content": [{"type": "text", "text": f"evil{HIDDEN}"}, {"type": "image", "data": "AA==", "mimeType": HIDDEN}]},
    ],
    ids=["text", "structured", "link", "mixed"],
)
def test_23_no_answer_of_a_tool_hides_anything_from_a_reader(answer: dict[str, Any]) -> None:
    told = json.dumps(model_output(answer, 0.0, accepts_images=True), ensure_ascii=False)
    assert "evil" in told and told.isprintable() and not any(char in told for char in HIDDEN if not char.isprintable())


def test_23_ordinary_answers_keep_their_bytes() -> None:
    for text in ("a\r\nb\tc\n", "\u00fc \u8d64 \U0001f469\u200d\U0001f4bb \u2764\ufe0f", "x" * 100):
        told = model_output({"content": [{"type": "text", "text": text}]}, 0.0, accepts_images=True)
        assert isinstance(told, str) and told.endswith(f"\n{text}")
        assert json.loads(str(model_output({"structuredContent": {"a": text}}, 0.0, accepts_images=True))) == {
            "a": text
        }


def test_23_the_list_of_servers_shows_no_field_raw(spindle: Spindle) -> None:
    quoted = "".join(f"\\U{ord(char):08x}" for char in HIDDEN)
    spindle.configure(f'[mcp_servers.far]\nurl = "https://x.example/"\nbearer_token_env_var = "T{quoted}"\n')
    done = spindle("mcp", "list")
    assert done.code == 0 and all(char.isprintable() or char == "\n" for char in done.out)
