"""Which tools a model sees, in which order, and who answers a call."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from typing import Any, cast

import msgspec
import pytest

from spindle.protocol.items import decode_json
from spindle.tools import specs as built_in
from spindle.tools.router import JIT_TOOLS, ToolChoice, ToolSet, Unsupported, build_tools
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult, function_spec

CODEX = {"shell_type": "shell_command", "patch_type": "freeform"}


class Extra:
    """A tool of somebody else, such as an MCP server's."""

    parallel = True

    def __init__(self, name: str) -> None:
        self.name = name

    def spec(self) -> dict[str, Any]:
        return function_spec(self.name, "extra", {}, [])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        return ToolResult(output="extra")


def tool_set(**options: Any) -> ToolSet:
    return build_tools(ToolChoice(**options))


def names(tools: ToolSet) -> list[str]:
    return [spec.get("name", spec["type"]) for spec in tools.specs]


def function_call(name: str, arguments: object = "{}") -> dict:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": "c1"}


def custom_call(name: str) -> dict:
    return {
        "type": "custom_tool_call",
        "name": name,
        "input": "*** Begin Patch",
        "call_id": "c2",
        "status": "completed",
    }


def found(tools: ToolSet, item: dict) -> tuple[Tool, ToolCall]:
    result = tools.find(item)
    assert result is not None
    return result


def test_the_usual_tools_stand_in_fixed_order():
    assert names(tool_set(**CODEX, extra=[Extra("mcp__b__x"), Extra("mcp__a__y")])) == [
        "exec_command",
        "write_stdin",
        "update_plan",
        "request_user_input",
        "apply_patch",
        "web_search",
        "view_image",
        "mcp__b__x",
        "mcp__a__y",
    ]


def test_two_equal_sets_have_equal_bytes():
    first, second = tool_set(**CODEX), tool_set(**CODEX)
    assert first.specs_bytes == second.specs_bytes
    assert decode_json(first.specs_bytes) == first.specs


@pytest.mark.parametrize(
    ("options", "shells"),
    [
        ({}, ["exec_command", "write_stdin"]),
        ({"shell_type": "disabled"}, ["exec_command", "write_stdin"]),
        ({"unified_exec": False}, ["shell"]),
        ({"unified_exec": False, "shell_type": "shell_command"}, ["shell_command"]),
        ({"unified_exec": False, "shell_type": "local"}, ["local_shell"]),
        ({"unified_exec": False, "shell_type": "unified_exec"}, ["exec_command", "write_stdin"]),
        ({"unified_exec": False, "shell_type": "disabled"}, []),
        ({"shell_tool": False}, []),
    ],
)
def test_the_shell_tool_follows_features_then_the_model(options, shells):
    listed = names(tool_set(**options))
    assert listed[: listed.index("update_plan")] == shells


def test_parts_can_be_switched_off():
    off = tool_set(
        shell_tool=False,
        update_plan=False,
        request_user_input=False,
        view_image=False,
        web_search=None,
        patch_type=None,
    )
    assert off.specs == [] and off.specs_bytes == b"[]"


@pytest.mark.parametrize(("mode", "external"), [("cached", False), ("live", True)])
def test_web_search_reaches_the_live_web_only_when_asked(mode, external):
    assert {"type": "web_search", "external_web_access": external} in tool_set(web_search=mode).specs


def test_the_patch_tool_comes_in_the_form_the_model_wants():
    assert [s["type"] for s in tool_set(patch_type="freeform").specs if s.get("name") == "apply_patch"] == ["custom"]
    assert [s["type"] for s in tool_set(patch_type="function").specs if s.get("name") == "apply_patch"] == ["function"]
    assert "apply_patch" not in names(tool_set())
    assert [tool_set(patch_type=kind).has_freeform_patch for kind in ("freeform", "function", None)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("request_rule", [True, False])
def test_a_prefix_rule_can_be_given_only_with_the_feature(request_rule):
    tools = tool_set(request_rule=request_rule)
    assert ("prefix_rule" in tools.specs[0]["parameters"]["properties"]) is request_rule


def test_every_function_is_described_closed_and_not_strict():
    for spec in tool_set(patch_type="function").specs:
        if spec["type"] != "function":
            continue
        parameters = spec["parameters"]
        assert spec["strict"] is False and len(spec["description"]) > 30
        assert parameters["additionalProperties"] is False and parameters.get("required") != []
        assert list(parameters["properties"]) == sorted(parameters["properties"])


@pytest.mark.parametrize("name", ["shell", "container.exec", "local_shell", "shell_command", "apply_patch"])
def test_tools_of_old_prompts_are_answered_although_they_are_not_listed(name):
    tools = tool_set()
    assert name not in names(tools)
    assert found(tools, function_call(name))[1].name == name


def test_a_shell_that_is_switched_off_stays_off():
    tools = tool_set(shell_tool=False)
    assert [
        tools.find(function_call(name)) for name in ("shell", "shell_command", "container.exec", "exec_command")
    ] == [None] * 4


def test_a_local_shell_call_speaks_the_words_of_the_shell_tool():
    action = {"type": "exec", "command": ["ls"], "timeout_ms": 5, "working_directory": "/w", "env": None, "user": None}
    item = {"type": "local_shell_call", "id": "lsh_1", "status": "completed", "action": action}
    tool, call = found(tool_set(), item)
    assert tool.name == "shell"
    assert call == ToolCall(
        item=item, name="local_shell", call_id="lsh_1", arguments='{"command":["ls"],"workdir":"/w","timeout_ms":5}'
    )


def test_arguments_reach_the_tool_verbatim():
    raw = '{ "cmd" :\t"x" }'
    assert found(tool_set(), function_call("exec_command", raw))[1].arguments == raw
    assert found(tool_set(), function_call("exec_command", {"cmd": "x"}))[1].arguments == '{"cmd":"x"}'
    assert found(tool_set(**CODEX), custom_call("apply_patch"))[1].arguments == "*** Begin Patch"


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (function_call("no_such_tool"), "unsupported call: no_such_tool"),
        (custom_call("no_such_tool"), "unsupported custom tool call: no_such_tool"),
        (custom_call("exec_command"), "unsupported custom tool call: exec_command"),
    ],
)
async def test_a_call_to_no_tool_is_answered_by_name(item, text):
    tools = tool_set()
    assert tools.find(item) is None
    call, tool = tools.resolve(item)
    with pytest.raises(Unsupported) as failure:
        await tool.run(call, cast(ToolContext, None))
    assert str(failure.value) == text


async def test_extra_tools_are_found_by_name():
    call, tool = tool_set(extra=[Extra("mcp__a__y")]).resolve(function_call("mcp__a__y"))
    assert (await tool.run(call, cast(ToolContext, None))).output == "extra"


def test_the_file_tools_are_listed_for_those_who_want_them_and_answer_only_then():
    tools = tool_set(**CODEX, jit_tools=JIT_TOOLS)
    assert names(tools)[4:8] == ["apply_patch", "grep_files", "read_file", "list_dir"]
    assert found(tools, function_call("read_file"))[0].parallel
    assert names(tool_set(**CODEX, jit_tools=("list_dir", "something_else")))[4:6] == ["apply_patch", "list_dir"]
    assert [tool_set(**CODEX).find(function_call(name)) for name in JIT_TOOLS] == [None] * 3


def test_the_file_tools_take_the_parameters_models_know():
    specs = {spec["name"]: spec["parameters"] for spec in tool_set(jit_tools=JIT_TOOLS).specs if "name" in spec}
    assert [(list(specs[name]["properties"]), specs[name]["required"]) for name in JIT_TOOLS] == [
        (["include", "limit", "path", "pattern"], ["pattern"]),
        (["file_path", "indentation", "limit", "mode", "offset"], ["file_path"]),
        (["depth", "dir_path", "limit", "offset"], ["dir_path"]),
    ]
    assert list(specs["read_file"]["properties"]["indentation"]["properties"]) == [
        *("anchor_line", "include_header", "include_siblings", "max_levels", "max_lines"),
    ]


OWN_TOOLS = [
    *(built_in.exec_command(), built_in.write_stdin(), built_in.shell(), built_in.shell_command()),
    *(built_in.apply_patch(freeform=False), built_in.read_file(), built_in.list_dir(), built_in.grep_files()),
    *(built_in.view_image(), built_in.update_plan(), built_in.request_user_input()),
    *(built_in.remember(), built_in.recall()),
]


@pytest.mark.parametrize("tool", OWN_TOOLS, ids=lambda tool: tool.name)
def test_what_a_model_is_told_of_a_tool_is_what_its_code_takes(tool: built_in.BuiltIn):
    module, _, function = tool.runs.partition(":")
    code = import_module(f"spindle.tools.{module}")
    assert callable(getattr(code, function))
    takes = getattr(code, "".join(word.capitalize() for word in tool.name.split("_")) + "Args")
    parameters = tool.spec()["parameters"]
    assert set(parameters["properties"]) <= set(takes.__struct_fields__)
    assert {field.name for field in msgspec.structs.fields(takes) if field.required} == set(
        parameters.get("required", [])
    )


def test_the_code_of_a_tool_is_loaded_with_its_first_call():
    code = """
import sys
from spindle.tools.router import JIT_TOOLS, ToolChoice, build_tools
build_tools(ToolChoice(patch_type="freeform", jit_tools=JIT_TOOLS, recollection=True))
print(*sorted(name for name in sys.modules if name.startswith("spindle.tools.")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"spindle.tools.{name}" for name in ("descriptions", "router", "specs", "tool")]


def test_threads_share_their_tools():
    for one, other in zip(tool_set(**CODEX).specs, tool_set(**CODEX).specs, strict=True):
        assert one is other
