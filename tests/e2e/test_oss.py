"""`spindle exec --oss` against a server that behaves like Ollama: what is missing is pulled, what is wrong is said."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fake_server import encode_event, message, stream_events

GOOD_PULL: list[dict[str, Any]] = [
    {"status": "pulling manifest"},
    {"status": "pulling aa", "digest": "sha256:aa", "total": 3_000_000_000, "completed": 0},
    {"status": "pulling aa", "digest": "sha256:aa", "total": 3_000_000_000, "completed": 1_500_000_000},
    {"status": "pulling bb", "digest": "sha256:bb", "total": 1_000_000_000, "completed": 1_000_000_000},
    {"status": "pulling aa", "digest": "sha256:aa", "total": 3_000_000_000, "completed": 3_000_000_000},
    {"status": "verifying sha256 digest"},
    {"status": "success"},
]
STALLED: list[dict[str, Any]] = [GOOD_PULL[0], GOOD_PULL[2], {}]
"""The empty object stands for silence."""


class Ollama(ThreadingHTTPServer):
    """Knows `models`; a pull is answered with the lines of `pull`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.models = ["other:1b"]
        self.pull: list[dict[str, Any]] | tuple[int, dict[str, Any]] = GOOD_PULL
        self.asked: list[tuple[str, Any]] = []
        self.has_responses = True
        self.loads: threading.Event | None = None
        """As LM Studio: an answer waits until the model is being loaded."""
        self.keys: list[str | None] = []
        self.over = threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Ollama  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.asked.append((self.path, None))
        known = {
            "/api/version": {"version": "0.14.1"},
            "/api/tags": {"models": [{"name": name} for name in self.server.models]},
            "/api/v0/models": {"data": [{"id": name, "state": "not-loaded"} for name in self.server.models]},
            "/v1/models": {"data": [{"id": name} for name in self.server.models]},
        }
        self.reply(200 if self.path in known else 404, known.get(self.path, {}))

    def do_POST(self) -> None:
        self.server.keys.append(self.headers.get("authorization"))
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body))
        if self.path == "/api/pull":
            self.send_pull(body["model"])
        elif self.path == "/api/show":
            self.reply(200, {"model_info": {"general.architecture": "gptoss", "gptoss.context_length": 30_000}})
        elif self.path == "/v1/responses" and not self.server.has_responses:
            self.send_text("text/plain", b"404 page not found", 404)
        elif self.path == "/v1/chat/completions":
            said = {"choices": [{"index": 0, "delta": {"content": "by chat"}, "finish_reason": "stop"}]}
            self.send_text("text/event-stream", f"data: {json.dumps(said)}\n\ndata: [DONE]\n\n".encode())
        elif body["model"] not in self.server.models:
            self.reply(404, {"error": {"message": f"model '{body['model']}' not found", "type": "not_found_error"}})
        elif body.get("max_output_tokens") == 1:
            assert self.server.loads is not None
            self.server.loads.set()
            self.reply(200, {"output": []})
        else:
            assert self.server.loads is None or self.server.loads.wait(30)
            events = stream_events((message("local"),), {}, None, None)
            self.send_text("text/event-stream", b"".join(map(encode_event, events)))

    def send_pull(self, model: str) -> None:
        if isinstance(self.server.pull, tuple):
            self.reply(*self.server.pull)
            return
        self.send_response(200)
        self.end_headers()
        for line in self.server.pull:
            if not line:
                self.server.over.wait(30)
                return
            self.wfile.write(json.dumps(line).encode() + b"\n")
            self.wfile.flush()
        if self.server.pull[-1].get("status") == "success":
            self.server.models.append(model)

    def reply(self, status: int, value: Any) -> None:
        self.send_text("application/json", json.dumps(value).encode(), status)

    def send_text(self, kind: str, content: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def ollama() -> Iterator[Ollama]:
    with Ollama() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


class Oss:
    """Runs `spindle exec --oss` in the workspace."""

    def __init__(self, command: list[str], cwd: Path, environment: dict[str, str], ollama: Ollama) -> None:
        self.line = [*command, "exec", "--oss", "--local-provider", "ollama", "-m", "gpt-oss:20b", "hi"]
        self.start: dict[str, Any] = {
            "cwd": cwd,
            "env": {**environment, "CODEX_OSS_BASE_URL": ollama.base_url},
            "stdin": subprocess.DEVNULL,
        }

    def __call__(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.line, **self.start, capture_output=True, text=True, timeout=50)


@pytest.fixture
def oss(spindle_cmd: list[str], workspace: Path, environment: dict[str, str], ollama: Ollama) -> Oss:
    return Oss(spindle_cmd, workspace, environment, ollama)


def test_a_missing_model_is_pulled_with_plain_lines_of_progress_and_used(oss: Oss, ollama: Ollama) -> None:
    done = oss()
    assert (done.returncode, done.stdout) == (0, "local\n"), done.stderr
    assert [body for path, body in ollama.asked if path == "/api/pull"] == [{"model": "gpt-oss:20b", "stream": True}]
    told = done.stderr.partition("gpt-oss:20b is there.")[0].splitlines()
    assert told == [
        "Ollama does not have the model gpt-oss:20b; getting it (Ctrl-C stops) ...",
        "pulling manifest",
        "0 %, 0.00 of 3.00 GB (pulling aa)",
        "50 %, 1.50 of 3.00 GB (pulling aa)",
        "62 %, 2.50 of 4.00 GB (pulling bb)",
        "100 %, 4.00 of 4.00 GB (pulling aa)",
    ]
    assert oss().returncode == 0 and "/api/pull" not in [path for path, _ in ollama.asked[-4:]]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([GOOD_PULL[0], {"error": "pull model manifest: file does not exist"}], "manifest: file does not exist"),
        ([GOOD_PULL[0], {"error": "\x1b[2Jno space left on device"}], ": no space left on device. Check the name"),
        (GOOD_PULL[:3], "the answer ended before the model was there; what was pulled is kept, so try again"),
        ((500, {"error": "max retries exceeded"}), "max retries exceeded"),
    ],
)
def test_a_pull_that_fails_ends_with_ollamas_reason_and_what_to_try(
    oss: Oss, ollama: Ollama, answer: Any, reason: str
) -> None:
    ollama.pull = answer
    done = oss()
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: Ollama could not pull the model gpt-oss:20b: ") and reason in last
    assert "`ollama pull gpt-oss:20b`" in last and "\x1b" not in done.stderr
    assert "/v1/responses" not in [path for path, _ in ollama.asked]


def test_on_a_terminal_one_line_shows_a_bar(oss: Oss) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(oss.line, **oss.start, stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        shown = read_until_closed(ours)
        assert running.wait(20) == 0
    assert "\r\x1b[2K[###############---------] 62 %, 2.50 of 4.00 GB (pulling bb)" in shown
    assert "\r\x1b[2K[########################] 100 %, 4.00 of 4.00 GB (pulling aa)" in shown


def test_ctrl_c_stops_a_pull_and_says_that_nothing_is_lost(oss: Oss, ollama: Ollama) -> None:
    ollama.pull = STALLED
    with subprocess.Popen(oss.line, **oss.start, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None and running.stdout is not None
        while b"50 %" not in (line := running.stderr.readline()):
            assert line, "it ended before it pulled"
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read().decode()
        assert (running.wait(20), running.stdout.read()) == (130, b"")
    assert rest == "Stopped; the next run goes on with what was pulled so far.\n"
    assert "/v1/responses" not in [path for path, _ in ollama.asked]


def test_a_model_that_ollama_lacks_is_told_with_the_command_that_gets_it(
    spindle_cmd: list[str], oss: Oss, ollama: Ollama
) -> None:
    """Without --oss nothing is pulled: the provider was chosen in the configuration."""
    line = [*spindle_cmd, "exec", "--json", "-c", "model_provider=ollama", "-m", "gpt-oss:20b", "hi"]
    done = subprocess.run(line, **oss.start, capture_output=True, text=True, timeout=50)
    text = json.loads(done.stdout.splitlines()[-1])["error"]["message"]
    assert done.returncode == 1
    assert "Get it with `ollama pull gpt-oss:20b`, or choose another with -m (there is: other:1b)." in text
    assert [path for path, _ in ollama.asked].count("/v1/responses") == 1


def test_the_way_back_does_not_lead_to_another_server(oss: Oss) -> None:
    way = r"\nto go on: spindle exec resume --oss --local-provider ollama -m gpt-oss:20b [0-9a-f-]{36}\n"
    assert re.search(way, oss().stderr)


def test_the_window_is_the_servers_and_no_key_is_sent(oss: Oss, ollama: Ollama, home: Path) -> None:
    ollama.models.append("gpt-oss:20b")
    oss.start["env"] |= {"OPENAI_API_KEY": "sk-ambient", "CODEX_API_KEY": "sk-ambient"}
    assert oss().returncode == 0
    (rollout,) = home.rglob("rollout-*.jsonl")
    windows = [
        line["payload"].get("model_context_window") for line in map(json.loads, rollout.read_text().splitlines())
    ]
    assert 28_500 in windows  # 95 of a hundred
    assert ("/api/show", {"model": "gpt-oss:20b"}) in ollama.asked and not any(ollama.keys)


def test_a_server_without_the_responses_api_is_asked_by_chat_from_then_on(oss: Oss, ollama: Ollama) -> None:
    ollama.models.append("gpt-oss:20b")
    ollama.has_responses = False
    done = oss()
    assert (done.returncode, done.stdout) == (0, "by chat\n"), done.stderr
    asked = [path for path, _ in ollama.asked if path.startswith("/v1/") and path != "/v1/models"]
    assert asked == ["/v1/responses", "/v1/chat/completions"]
    ollama.asked.clear()
    assert oss().stdout == "by chat\n"
    assert "/v1/responses" not in [path for path, _ in ollama.asked]


@pytest.mark.parametrize("code", [0, 3])
def test_lm_studio_gets_a_missing_model_by_its_own_program(
    spindle_cmd: list[str], oss: Oss, tmp_path: Path, code: int
) -> None:
    lms = tmp_path / "bin" / "lms"
    lms.parent.mkdir()
    lms.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/lms.args\necho fetching\nexit {code}\n')
    lms.chmod(0o755)
    line = [*spindle_cmd, "exec", "--oss", "--local-provider", "lmstudio", "-m", "other:2b", "hi"]
    environment = {**oss.start["env"], "PATH": f"{lms.parent}:{os.environ['PATH']}"}
    done = subprocess.run(line, **{**oss.start, "env": environment}, capture_output=True, text=True, timeout=50)
    assert (tmp_path / "lms.args").read_text() == "get --yes other:2b\n"
    assert "fetching" in done.stderr and "fetching" not in done.stdout
    assert ("`lms get --yes other:2b` failed with exit code 3" in done.stderr) == (code == 3)


def test_lm_studio_loads_the_model_while_the_thread_begins(spindle_cmd: list[str], oss: Oss, ollama: Ollama) -> None:
    ollama.loads = threading.Event()
    line = [*spindle_cmd, "exec", "--oss", "--local-provider", "lmstudio", "-m", "other:1b", "hi"]
    done = subprocess.run(line, **oss.start, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "local\n"), done.stderr
    assert ("/v1/responses", {"model": "other:1b", "input": "", "max_output_tokens": 1}) in ollama.asked


def test_without_the_program_of_lm_studio_a_sentence_says_how_to_get_the_model(
    spindle_cmd: list[str], oss: Oss, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    line = [*spindle_cmd, "exec", "--oss", "--local-provider", "lmstudio", "--skip-git-repo-check", "hi"]
    environment = {**oss.start["env"], "PATH": str(tmp_path / "empty")}
    done = subprocess.run(line, **{**oss.start, "env": environment}, capture_output=True, text=True, timeout=50)
    assert done.returncode == 1
    assert re.search(r"error: LM Studio does not have the model openai/gpt-oss-20b: get it with `lms get ", done.stderr)


def read_until_closed(terminal: int) -> str:
    """What was shown on the terminal until the last program that wrote to it has ended."""
    parts: list[bytes] = []
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side is closed
            data = b""
        if not data:
            os.close(terminal)
            return b"".join(parts).decode()
        parts.append(data)
