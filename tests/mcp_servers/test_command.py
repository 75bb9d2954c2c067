"""`spindle mcp`: the installed command, and what it leaves in the user's file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

WRITTEN = """\
# my own notes
model = "gpt-5.2-codex"   # the usual one

[mcp_servers.old]  # keep me
command = "old"
future_key = [1, 2]
"""


@pytest.fixture
def codex_home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def mcp(spindle_cmd: list[str], codex_home: Path, workspace: Path) -> Run:
    def run(*words: str) -> Any:
        return subprocess.run(
            [*spindle_cmd, "mcp", *words],
            cwd=workspace,
            env={"CODEX_HOME": str(codex_home), "HOME": str(codex_home.parent), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )

    return run


def test_servers_are_added_and_removed_and_nothing_else_changes(mcp: Run, codex_home: Path) -> None:
    file = codex_home / "config.toml"
    file.write_text(WRITTEN)
    done = mcp("add", "docs", "--env", "A=1", "--env", "B=x=y", "--", "docs-server", "--stdio", "a b")
    assert (done.returncode, done.stdout) == (0, "Added global MCP server 'docs'.\n")
    assert mcp("add", "remote", "--url", "https://mcp.example.com/mcp", "--bearer-token-env-var", "TOK").returncode == 0
    assert file.read_text() == WRITTEN + (
        '\n[mcp_servers.docs]\ncommand = "docs-server"\nargs = ["--stdio", "a b"]\n'
        '\n[mcp_servers.docs.env]\nA = "1"\nB = "x=y"\n'
        '\n[mcp_servers.remote]\nurl = "https://mcp.example.com/mcp"\nbearer_token_env_var = "TOK"\n'
    )
    assert mcp("remove", "docs").stdout == "Removed global MCP server 'docs'.\n"
    assert mcp("remove", "remote").returncode == 0
    assert file.read_text().strip() == WRITTEN.strip()
    assert mcp("remove", "docs").stdout == "No MCP server named 'docs' found.\n"


def test_the_first_server_makes_a_private_file(mcp: Run, codex_home: Path) -> None:
    assert mcp("add", "docs", "--", "docs-server").returncode == 0
    file = codex_home / "config.toml"
    assert file.read_text() == '[mcp_servers.docs]\ncommand = "docs-server"\n'
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_linked_file_stays_a_link_with_its_mode(mcp: Run, codex_home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(WRITTEN)
    real.chmod(0o640)
    (codex_home / "config.toml").symlink_to(real)
    assert mcp("add", "docs", "--", "docs-server").returncode == 0
    assert (codex_home / "config.toml").is_symlink() and "docs-server" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


def test_adding_a_name_again_replaces_its_entry(mcp: Run, codex_home: Path) -> None:
    (codex_home / "config.toml").write_text(WRITTEN)
    assert mcp("add", "old", "--", "new").returncode == 0
    assert 'command = "new"' in (codex_home / "config.toml").read_text()
    assert "future_key" not in (codex_home / "config.toml").read_text()


def test_a_broken_file_is_named_and_left_alone(mcp: Run, codex_home: Path) -> None:
    (codex_home / "config.toml").write_text("model = \n")
    done = mcp("add", "docs", "--", "docs-server")
    assert done.returncode == 1 and "config.toml:1" in done.stderr and "Traceback" not in done.stderr
    assert (codex_home / "config.toml").read_text() == "model = \n"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("list", "x"),
        ("get",),
        ("add",),
        ("add", "x"),
        ("add", "x", "--url", "https://a", "--", "b"),
        ("add", "x", "--url", "file:///etc/passwd"),
        ("add", "a b", "--", "x"),
        ("add", "x", "--env", "NOVALUE", "--", "y"),
        ("add", "x", "--env", "A=1", "--url", "https://a"),
        ("add", "x", "--bearer-token-env-var", "T", "--", "y"),
        ("frobnicate", "x"),
    ],
)
def test_a_bad_command_line_says_so_and_changes_nothing(mcp: Run, codex_home: Path, words: tuple[str, ...]) -> None:
    done = mcp(*words)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stdout == ""
    assert not (codex_home / "config.toml").exists()


def test_the_list_and_one_entry_as_json_have_the_fields_of_the_reference(mcp: Run, codex_home: Path) -> None:
    (codex_home / "config.toml").write_text(
        """
[mcp_servers.docs]
command = "docs-server"
args = ["--stdio"]
env = { A = "1" }
tool_timeout_sec = 5
disabled_tools = ["x"]
[mcp_servers.remote]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "TOK"
enabled = false
"""
    )
    transport = {"type": "stdio", "command": "docs-server", "args": ["--stdio"], "env": {"A": "1"}}
    docs = {
        "name": "docs",
        "enabled": True,
        "disabled_reason": None,
        "transport": {**transport, "env_vars": [], "cwd": None},
        "startup_timeout_sec": None,
        "tool_timeout_sec": 5,
    }
    remote = {
        "name": "remote",
        "enabled": False,
        "disabled_reason": "disabled in the configuration",
        "transport": {
            "type": "streamable_http",
            "url": "https://mcp.example.com/mcp",
            "bearer_token_env_var": "TOK",
            "http_headers": None,
            "env_http_headers": None,
        },
        "startup_timeout_sec": None,
        "tool_timeout_sec": None,
    }
    assert json.loads(mcp("list", "--json").stdout) == [
        {**docs, "auth_status": "unsupported"},
        {**remote, "auth_status": "bearer_token"},
    ]
    assert json.loads(mcp("get", "docs", "--json").stdout) == {**docs, "enabled_tools": None, "disabled_tools": ["x"]}


def test_people_see_what_runs_but_no_secret(mcp: Run, codex_home: Path) -> None:
    (codex_home / "config.toml").write_text(
        '[mcp_servers.docs]\ncommand = "docs\u202e-server"\nargs = ["a b"]\nenv = { KEY = "sk-secret" }\n'
    )
    for words in (("list",), ("get", "docs")):
        out = mcp(*words).stdout
        assert "docs\\u{202E}-server" in out and "'a b'" in out and "KEY=*****" in out and "sk-secret" not in out
    assert mcp("get", "nope").returncode == 1 and "'nope'" in mcp("get", "nope").stderr


def test_23_no_field_of_an_entry_is_printed_raw(mcp: Run, codex_home: Path, workspace: Path) -> None:
    """A project's entry, which a person looks at before agreeing to it: each field has its own hidden text."""
    hidden = iter(f"f{number}\\u202e\\u200b\\u001b[2J" for number in range(20))
    program = f'command = "{next(hidden)}"\nargs = ["{next(hidden)}"]\ncwd = "/{next(hidden)}"\n'
    program += f'env = {{ "{next(hidden)}" = "{next(hidden)}" }}\nenv_vars = ["{next(hidden)}"]\n'
    address = f'url = "https://h/{next(hidden)}"\nbearer_token_env_var = "{next(hidden)}"\n'
    address += f'http_headers = {{ "{next(hidden)}" = "x" }}\n'
    address += f'env_http_headers = {{ "{next(hidden)}" = "{next(hidden)}" }}\n'
    (workspace / ".codex").mkdir()
    entries = f"[mcp_servers.program]\n{program}[mcp_servers.address]\n{address}"
    (workspace / ".codex/config.toml").write_text(entries)
    (codex_home / "config.toml").write_text(f'[projects."{workspace}"]\ntrust_level = "trusted"\n')
    seen = ""
    for words in (("list",), ("get", "program"), ("get", "address"), ("trust", "program")):
        done = mcp(*words)
        assert done.returncode == 0, done.stderr
        seen += done.stdout
        for text in (done.stdout, done.stderr):
            assert all(char.isprintable() or char == "\n" for char in text), words
    assert [number for number in range(11) if f"f{number}\\u{{202E}}" not in seen.replace("\n", "")] == []


def test_consent_is_given_to_an_entry_of_a_project_as_it_stands(mcp: Run, codex_home: Path, workspace: Path) -> None:
    project = workspace / ".codex"
    project.mkdir()
    entry = '[mcp_servers.tool]\ncommand = "tool"\nenv = { LD = "x" }\ndefault_tools_approval_mode = "approve"\n'
    entry += 'disabled_tools = ["drop"]\n'
    (project / "config.toml").write_text(entry)
    (codex_home / "config.toml").write_text(f'[projects."{workspace}"]\ntrust_level = "trusted"\n')
    [listed] = json.loads(mcp("list", "--json").stdout)
    assert (listed["enabled"], listed["disabled_reason"]) == (False, "not agreed to")
    done = mcp("trust", "tool")
    assert done.returncode == 0 and "LD=x" in done.stdout and "when it changes, it is off again" in done.stdout
    assert "default_tools_approval_mode: approve" in done.stdout
    assert (codex_home / "mcp-consents.json").stat().st_mode & 0o777 == 0o600
    assert json.loads(mcp("list", "--json").stdout)[0]["enabled"] is True
    for old, new in (('"x"', '"y"'), ('"drop"', "")):
        (project / "config.toml").write_text(entry.replace(old, new))
        assert "not agreed to" in mcp("list").stdout
    (project / "config.toml").write_text(entry)
    assert "agreed to: yes" in mcp("get", "tool").stdout
    assert "is off from the next session on" in mcp("untrust", "tool").stdout
    assert "agreed to: no" in mcp("get", "tool").stdout
    assert mcp("untrust", "tool").stdout == "There is no consent to 'tool'.\n"


def test_an_entry_of_the_user_needs_no_consent(mcp: Run) -> None:
    mcp("add", "docs", "--", "docs-server")
    assert mcp("trust", "docs").returncode == 1
