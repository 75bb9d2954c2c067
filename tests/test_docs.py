"""What the documentation says is what the program does."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, custom_call, message, reasoning, turn
from messages import every_kind
from spindle.config.load import LoadOptions, load_config
from spindle.frontends.command_table import EXEC, SPINDLE
from spindle.frontends.commands import COMMON
from spindle.frontends.practice_scene import FILES, PATCH, PROMPT
from spindle.protocol.ops import OPS
from spindle.workspace.shell import user_shell

REPOSITORY = Path(__file__).parent.parent
PAGES = ["README.md", "CHANGELOG.md", *(f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md"))]
TWINS = {"agent_message_delta", "agent_reasoning_delta"}


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text()


def first_cells(page: str, heading: str) -> str:
    """The first column of the table below a heading."""
    part = text_of(page).split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(line.split("|")[1] for line in part.splitlines() if line.startswith("| "))


@pytest.mark.parametrize("name", ["config-docs", "cli-docs", "protocol-schemas"])
def test_what_is_generated_is_in_step(name: str) -> None:
    script = REPOSITORY / "scripts" / name
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr or f"run scripts/{name}"


@pytest.mark.parametrize("page", PAGES)
def test_the_configuration_files_that_are_shown_can_be_used(page: str, tmp_path: Path) -> None:
    for block in re.findall(r"```toml\n(.*?)```", text_of(page), re.DOTALL):
        tomllib.loads(block)
        (tmp_path / "config.toml").write_text(block)
        env = {"CODEX_HOME": str(tmp_path)}
        strict = LoadOptions(strict=True)
        found = load_config(cwd=str(tmp_path), env=env, system_dir=str(tmp_path / "none"), options=strict)
        assert found.warnings == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    folder = (REPOSITORY / page).parent
    for target in re.findall(r"\]\(([^)#]+)", text_of(page)):
        assert target.startswith("https://") or (folder / target).exists(), target


def test_every_option_of_exec_is_in_its_table() -> None:
    shown = set(re.findall(r"--[a-z-]+", first_cells("docs/exec.md", "Options")))
    options = [*COMMON, *EXEC.options, *(option for below in EXEC.commands for option in below.options)]
    real = {name for option in options for name in option.names if name.startswith("--")}
    assert shown == real


def test_commands_that_are_named_exist() -> None:
    for page in PAGES:
        # Only in code: prose may say anything.
        blocks = re.findall(r"```(?:sh)?\n(.*?)```", text_of(page), re.DOTALL)
        code = "\n".join([*blocks, *re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text_of(page))])
        for word in re.findall(r"(?:^|[\s|(])(?:\./run|spindle) ([a-z][a-z-]+)", code):
            assert SPINDLE.find(word) is not None, f"{page}: spindle {word}"


def test_every_operation_and_event_is_on_the_protocol_page() -> None:
    operations = set(re.findall(r"`(\w+)`", first_cells("docs/protocol.md", "Operations")))
    assert operations - {"type"} == set(OPS)
    part = text_of("docs/protocol.md").split("## Events\n", 1)[1]
    shown = set(re.findall(r"`(\w+)`", part)) - {"type"} - TWINS
    sent = [kind for kind in every_kind() if kind.__module__.startswith("spindle.protocol.")]
    assert shown == {str(kind.__struct_config__.tag) for kind in sent}


def test_the_session_on_the_protocol_page_happens(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo hello"}, "c1")), turn(message("Hello.")))
    example = text_of("docs/protocol.md").split("a test\nruns it:\n\n```\n", 1)[1].split("```", 1)[0]
    example = example.replace("/bin/bash", user_shell().path)  # the page shows the usual one
    wanted = re.findall(r'← \{"id":"(\w*)","msg":\{"type":"(\w+)"', example)
    process = subprocess.Popen(
        [*spindle_cmd, "proto"], cwd=workspace, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    seen: list[tuple[str, str]] = []
    with process, process.stdin, process.stdout:
        for line in example.splitlines():
            if line.startswith("→ "):
                process.stdin.write(line[2:].encode() + b"\n")
                process.stdin.flush()
                continue
            while (event := json.loads(process.stdout.readline()))["msg"]["type"] == "token_count":
                pass
            seen.append((event["id"], event["msg"]["type"]))
            fields = line.split('"msg":', 1)[1].partition(',"item":')[0]
            for name, value in re.findall(r'"(\w+)":("[^"…]*"|\d+|\[[^]…]*\])(?=[,}]|$)', fields):
                assert event["msg"][name] == json.loads(value), line
        assert process.stdout.read() == b""
    assert (seen, process.returncode) == (wanted, 0)


# ---- the page that follows one request -------------------------------------------------------------------

LOOP_USAGE = ((5210, 0, 41), (5530, 5120, 96), (5680, 5504, 38), (5790, 5632, 60))
LOOP_TEST = "python3 -B -m unittest -q 2>&1"


def is_shown_as(page: Any, real: Any) -> bool:
    """Whether a value on a page is the real one, where `…` stands for what was left out."""
    match page:
        case str() if isinstance(real, str):
            return re.fullmatch(".*".join(map(re.escape, page.split("…"))), real, re.DOTALL) is not None
        case dict() if isinstance(real, dict):
            named = {key: value for key, value in page.items() if key != "…"}
            is_whole = "…" in page or page.keys() == real.keys()
            return is_whole and all(key in real and is_shown_as(value, real[key]) for key, value in named.items())
        case list() if isinstance(real, list):
            named = [value for value in page if value != "…"]
            is_whole = "…" in page or len(page) == len(real)
            return is_whole and len(named) <= len(real) and all(map(is_shown_as, named, real))
        case _:
            return page == real


def test_a_shortened_value_is_told_from_a_wrong_one() -> None:
    assert is_shown_as({"a": "x…z", "b": [1, "…"], "…": "…"}, {"a": "xyz", "b": [1, 2], "c": 0})
    for wrong in ({"a": "x"}, {"a": "xyz", "b": 1}, {"a": "…", "c": 1}, {"a": "xyz", "…": "…", "d": 1}):
        assert not is_shown_as(wrong, {"a": "xyz", "c": 0})


def test_the_requests_on_the_page_about_the_loop_are_those_that_are_sent(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, tmp_path: Path
) -> None:
    folder = tmp_path / "textstats"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content)
    usages = [dict(zip(("input", "cached", "output"), counts, strict=True)) for counts in LOOP_USAGE]
    answers = [
        turn(
            reasoning("**Reproducing the failure first**"),
            call("exec_command", {"cmd": LOOP_TEST}, "call_1"),
            usage=usages[0],
        ),
        turn(custom_call("apply_patch", PATCH, "call_2"), usage=usages[1]),
        turn(call("exec_command", {"cmd": LOOP_TEST}, "call_3"), usage=usages[2]),
        turn(message("The tests pass now."), usage=usages[3]),
    ]
    server.script(*answers)
    page = text_of("docs/how-it-works.md")
    flags = ["--skip-git-repo-check", "-s", "danger-full-access", "-m", "gpt-5.2-codex"]
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        [*spindle_cmd, "exec", *flags, PROMPT],
        cwd=folder,
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "The tests pass now.\n"), done.stderr
    assert f'"{PROMPT}"' in page
    sent = [asked.json for asked in server.turns_asked]
    first, added, patched = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert is_shown_as(first, sent[0]) and list(first) == list(sent[0])
    assert sent[1]["input"][:3] == sent[0]["input"] and is_shown_as(added, sent[1]["input"][3:])
    assert is_shown_as(patched, sent[2]["input"][6:]) and len(sent) == 4
    events = [json.loads(line) for line in re.findall(r'^\{"type": "response.*$', page, re.MULTILINE)]
    real = [event for event in answers[0].events if event["type"] in {shown["type"] for shown in events}]
    assert is_shown_as(events, real)
    rows = re.findall(r"^\| \d \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert rows == [(f"{given:,}", f"{cached:,}") for given, cached, _ in LOOP_USAGE]


def test_files_that_pages_name_are_there() -> None:
    source = REPOSITORY / "src" / "spindle"
    for page in ("docs/how-it-works.md", "docs/architecture.md"):
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", text_of(page)):
            packages = [source, source / "frontends", source / "frontends" / "app_server", REPOSITORY]
            assert any((folder / name).exists() for folder in packages), f"{page}: {name}"


# ---- troubleshooting -------------------------------------------------------------------------------------


def texts_of_the_program() -> str:
    """Every text in the source, one a line; what is filled in stands there as `{}`."""
    texts = []
    for path in (REPOSITORY / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(
        [*texts, *((REPOSITORY / "scripts" / name).read_text() for name in ("prepare-venv", "set-up-step"))]
    )


def test_messages_that_are_quoted_are_messages_of_the_program() -> None:
    quotes = re.findall(r"^> (.*)$", text_of("docs/troubleshooting.md"), re.MULTILINE)
    said = texts_of_the_program()
    assert len(quotes) >= 8
    assert [quote for quote in quotes if not all(part.strip() in said for part in quote.split("…"))] == []


def test_every_page_can_be_found_from_the_readme() -> None:
    assert [page for page in PAGES if page.startswith("docs/") and f"]({page}" not in text_of("README.md")] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_into_a_page_lead_to_a_heading(page: str) -> None:
    folder = (REPOSITORY / page).parent
    for target, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", text_of(page)):
        headings = re.findall(
            r"^#+ (.*)$", (folder / target if target else REPOSITORY / page).read_text(), re.MULTILINE
        )
        known = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in known, f"{target}#{anchor}"
