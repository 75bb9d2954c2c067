"""What `threads`, `models`, `features list`, `doctor`, `mcp list`, `grants` and `hooks` print fits the terminal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_server import FakeServer, message, turn
from screen import Screen
from spindle.frontends.fit import cells

Run = Callable[..., str]


@pytest.fixture
def run(spindle_cmd: list[str], workspace: Path, environment: dict[str, str]) -> Run:
    def start(*args: str, columns: int | None = None) -> str:
        """What is printed: into a pipe, or on a terminal of so many columns."""
        env = {**environment, "TZ": "Europe/Berlin", "LANG": "C.UTF-8", "TERM": "xterm"}
        if columns is not None:
            with Screen([*spindle_cmd, *args], cwd=workspace, env=env, columns=columns, rows=200) as screen:
                screen.wait()
                return screen.raw.decode().replace("\r\n", "\n")
        done = subprocess.run(
            [*spindle_cmd, *args], cwd=workspace, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=50
        )
        return done.stdout.decode()

    return start


def test_threads_tell_the_zone_of_their_times_and_forks_from_their_origin(run: Run, server: FakeServer) -> None:
    server.otherwise(turn(message("ok")))
    parent = json.loads(run("exec", "--json", "one and the same title").split("\n")[0])["thread_id"]
    fork = json.loads(run("exec", "--json", "fork", parent, "--at", "1", "more").split("\n")[0])["thread_id"]
    rows = {row[:36]: row[38:] for row in run("threads").splitlines()}
    assert rows.keys() == {parent, fork}
    assert rows[parent][16:] in (" CET  one and the same title", " CEST  one and the same title")
    assert rows[fork].endswith(f"  (fork of {parent[:13]}) one and the same title")


@pytest.mark.parametrize("columns", [36, 60, 80, 120])
def test_ids_stay_whole_and_titles_are_cut_to_the_width(run: Run, server: FakeServer, columns: int) -> None:
    thread_id = json.loads(run("exec", "--json", "日本語 " + "very long title " * 20).split("\n")[0])["thread_id"]
    lines = run("threads", columns=columns).splitlines()
    assert max(map(cells, lines)) <= columns and lines[0].startswith(thread_id)
    assert lines[-1].endswith("…") and "日本語" in lines[-1] and cells(lines[-1]) >= min(columns, 60) - 8


@pytest.mark.parametrize("columns", [30, 44, 80])
def test_no_table_is_wider_than_the_terminal(run: Run, home: Path, workspace: Path, columns: int) -> None:
    config = home / "config.toml"
    long = "a-long-word " * 12
    config.write_text(
        f'{config.read_text()}\n[projects."{workspace}"]\ntrust_level = "trusted"\n'
        f'[mcp_servers.tiny]\ncommand = "/bin/some-program"\nargs = ["{long}", "日本語日本語日本語"]\n'
        f'[mcp_servers.far]\nurl = "https://example.com/{"path/" * 20}"\nenabled = false\n'
        f'[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "echo {long}"\n'
    )
    (home / "rules").mkdir()
    (home / "rules" / "default.rules").write_text(
        f'prefix_rule(pattern=["git", "commit", "-m", "{long}"], decision="allow")\n'
    )
    listed = (["mcp", "list"], ["models"], ["features", "list"])
    for command in (*listed, ["mcp", "get", "tiny"], ["grants"], ["hooks"], ["doctor"]):
        printed = run(*command, columns=columns)
        wide = [line for line in printed.splitlines() if cells(line) > columns and not line.startswith("warning: ")]
        assert printed and wide == [], command
    whole = "".join(run("hooks", columns=columns).split())
    assert "".join(long.split()) in whole  # what a person agrees to is wrapped, never cut


@pytest.mark.parametrize("columns", [30, 60, 80, 130])
def test_models_lose_nothing_where_the_terminal_is_narrow(run: Run, columns: int) -> None:
    wide, narrow = run("models"), run("models", columns=columns)
    entry = next(line for line in wide.splitlines() if line.startswith("gpt-6.1-sol"))
    # By columns, or as a block of lines that ends where the next model begins.
    shown = narrow[narrow.index("gpt-6.1-sol") : narrow.index("gpt-6-astra")]
    assert [word for word in entry.split() if word not in shown.split()] == []
    assert (shown.count("\n") == 1) == (columns == 130)
