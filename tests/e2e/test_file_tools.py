"""The file tools through the installed command: who is offered them, and one thing leading to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from installed import Spindle

FILE_TOOLS = ["grep_files", "read_file", "list_dir"]


@pytest.mark.parametrize(
    ("flags", "offered"),
    [
        ([], []),
        (["-c", "spindle.jit_tools=true"], FILE_TOOLS),
        (["-m", "nobody-knows-it"], FILE_TOOLS),
        (["-m", "nobody-knows-it", "-c", "spindle.jit_tools=false"], []),
    ],
)
def test_the_file_tools_are_for_models_that_need_them(
    spindle: Spindle, server: FakeServer, flags: list[str], offered: list[str]
) -> None:
    server.script(turn(message("ok")))
    assert spindle("exec", *flags, "hi").code == 0
    names = [tool.get("name") for tool in server.requests[0].json["tools"]]
    assert [name for name in names if name in FILE_TOOLS] == offered


def test_listing_leads_to_searching_and_searching_to_reading(
    spindle: Spindle, workspace: Path, server: FakeServer
) -> None:
    (workspace / "src").mkdir()
    (workspace / "src" / "main.py").write_text("import os\n\n\ndef start():\n    pass\n")
    server.script(
        turn(call("list_dir", {"dir_path": str(workspace)}, "c1")),
        turn(call("grep_files", {"pattern": "def start", "path": f"{workspace}/src"}, "c2")),
        turn(call("read_file", {"file_path": f"{workspace}/src/main.py", "offset": 4}, "c3")),
        turn(message("done")),
    )
    assert spindle("exec", "-c", "spindle.jit_tools=true", "look around").code == 0
    outputs = [item["output"] for item in server.requests[-1].json["input"] if item["type"] == "function_call_output"]
    assert outputs == [
        f"Absolute path: {workspace}\n.git/\nsrc/\n  main.py",
        f"{workspace}/src/main.py",
        "L4: def start():\nL5:     pass",
    ]
