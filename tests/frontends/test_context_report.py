"""`spindle context` through the installed command, on a thread with edits, a compaction, misses, and hostile text."""

from __future__ import annotations

import http.server
import json
import os
import pty
import re
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, Turn, call, message, turn
from spindle.context.account import SOURCES
from spindle.lookback.report import Break, Cache, ContextReport, Deed, RequestReport, Totals, TurnReport

FIXTURES = Path(__file__).parent.parent / "fixtures" / "rollouts"
HOSTILE = (
    '</pre></details></script></style></title><img src="http://127.0.0.1:{port}/canary" onerror="document.title=1">'
    "<script>document.title='owned'; fetch('http://127.0.0.1:{port}/canary')</script>"
    '<link rel="stylesheet" href="http://127.0.0.1:{port}/canary"><iframe src="http://127.0.0.1:{port}/canary"></iframe>'
    "<!-- ]]> &lt; \u202egnp.exe\u2066 \u200b\x1b[31mred\x1b[0m\n"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Listener:
    """A port that should never hear anything."""

    def __init__(self) -> None:
        heard = self.heard = list[str]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.append(self.path)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Recorded:
    """One recorded thread, and the command that looks at it."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, server: FakeServer) -> None:
        self.command, self.environment, self.folder, self.server = command, environment, folder, server
        self.listener = Listener()
        self.thread_id = ""

    def run(self, *words: str, code: int = 0, **how: Any) -> str:
        done = subprocess.run(
            [*self.command, *words], cwd=self.folder, env=self.environment, capture_output=True, timeout=120, **how
        )
        assert done.returncode == code, done.stderr.decode()
        return (done.stdout if code == 0 else done.stderr).decode()

    def json(self, *words: str) -> Any:
        return json.loads(self.run("context", self.thread_id, "--json", *words))

    @property
    def sent(self) -> list[list[dict[str, Any]]]:
        """The inputs of the thread's requests; those for summaries have no tools."""
        return [asked.json["input"] for asked in self.server.turns_asked if asked.json["tools"]]


@pytest.fixture(scope="module")
def recorded(spindle_cmd: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    base = tmp_path_factory.mktemp("report")
    folder = base / "w<img src=x onerror=alert(1)>"
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("OPENAI_", "CODEX_"))}
    with FakeServer() as server:
        (base / "config.toml").write_text(
            f"""
model = "gpt-5.2-codex"
model_provider = "fake"
model_auto_compact_token_limit = 40000
model_context_window = 60000
[model_providers.fake]
name = "fake"
base_url = "{server.base_url}"
wire_api = "responses"
[spindle.context]
mode = "edit"
rule = {{ trigger = {{ type = "tool_uses", value = 4 }} }}
"""
        )
        environment = {**kept, "HOME": str(base), "CODEX_HOME": str(base), "NO_PROXY": "127.0.0.1"}
        found = Recorded(spindle_cmd, environment, folder, server)
        (folder / "hostile.txt").write_text(HOSTILE.format(port=found.listener.port) * 40)
        (folder / "AGENTS.md").write_text(HOSTILE.format(port=found.listener.port))
        server.script(
            runs("cat hostile.txt", 1, 9_000, 0),
            runs("seq 1 2000", 2, 13_000, 8_960),
            runs("seq 1 2000", 3, 16_000, 12_928),
            runs("seq 1 2000", 4, 19_000, 0),
            runs("seq 1 2000", 5, 21_000, 10_880),
            runs("seq 1 2000", 6, 45_000, 20_992),
            turn(message("SUMMARY of the work")),
            turn(message("done"), usage={"input": 9_000, "cached": 4_096}),
            turn(message("switched"), usage={"input": 9_500, "cached": 0}),
        )
        prompt = "begin <script>alert(1)</script>"
        flags = ["--skip-git-repo-check", "--json", "-s", "danger-full-access"]
        lines = found.run("exec", *flags, prompt).splitlines()
        found.thread_id = next(json.loads(line)["thread_id"] for line in lines if "thread.started" in line)
        found.run("exec", *flags, "-m", "gpt-5.2", "resume", found.thread_id, "go on")
        yield found
        found.listener.close()


def runs(command: str, number: int, given: int, cached: int) -> Turn:
    return turn(call("exec_command", {"cmd": command}, f"c{number}"), usage={"input": given, "cached": cached})


# ---- data ----------------------------------------------------------------------------------------------


def test_the_json_holds_every_request_with_its_tokens_and_causes(recorded: Recorded) -> None:
    report = recorded.json()
    assert report["version"] == 1 and report["thread_id"] == recorded.thread_id
    requests = report["requests"]
    assert [request["number"] for request in requests] == list(range(1, 9))
    assert [request["usage"]["input_tokens"] for request in requests] == [
        *(9_000, 13_000, 16_000, 19_000, 21_000, 45_000, 9_000, 9_500)
    ]
    causes = [request["cache"]["cause"] for request in requests]
    assert causes[:4] == ["first_request", None, None, "provider_miss"]
    assert causes[4:6] == ["context_edit"] * 2 and causes[6] == "compaction"
    assert [broken["kind"] for broken in report["breaks"]] == ["edit", "edit", "edit", "compaction"]
    assert report["breaks"][-1]["tokens_before"] > 45_000 > report["breaks"][-1]["tokens_after"]
    assert report["totals"]["compactions"] == 1 and report["totals"]["alarms"] == 0
    assert report["totals"]["cached_tokens"] == sum(request["usage"]["cached_input_tokens"] for request in requests)
    assert requests[0]["sources"]["agents_md"] > 0 and requests[6]["sources"]["summary"] > 0


def test_one_request_is_shown_as_the_server_received_it(recorded: Recorded) -> None:
    for number, sent in enumerate(recorded.sent, 1):
        shown = recorded.json("--request", str(number))
        assert shown["input"] == sent
        assert [cost["index"] for cost in shown["items"]] == list(range(len(sent)))
    asked = recorded.server.turns_asked[0].json
    assert recorded.json("--request", "1")["instructions"] == asked["instructions"]


def test_the_text_is_a_table_with_breaks_between_its_rows(recorded: Recorded) -> None:
    lines = recorded.run("context", recorded.thread_id).splitlines()
    rows = [line for line in lines if re.match(r" *\d+  \d\d:\d\d:\d\d", line)]
    assert len(rows) == 8 and "9,000" in rows[0] and rows[1].endswith("ran seq 1 2000")
    assert lines[lines.index(rows[3]) + 1].startswith("      cache: missed by the provider")
    place = next(number for number, line in enumerate(lines) if "compaction:" in line)
    assert "context edit: cleared 1 output" in " ".join(lines[place - 3 : place])
    assert lines.index(rows[5]) < place < lines.index(rows[6])
    text = "\n".join(lines)
    assert "request 8 by source" in text and "AGENTS.md" in text and "work ledger: 2 prompts" in text
    assert [line[:9] for line in lines if line.startswith("── turn")] == ["── turn 1", "── turn 2"]


@pytest.mark.parametrize("width", [40, 48, 72, 80, 100, 140])
def test_the_text_fits_the_terminal(recorded: Recorded, width: int) -> None:
    command = [*recorded.command, "context", recorded.thread_id]
    env = {**recorded.environment, "COLUMNS": str(width)}
    lines = subprocess.run(command, cwd=recorded.folder, env=env, capture_output=True, text=True, timeout=60).stdout
    assert max(map(len, lines.splitlines())) <= width
    assert "ran seq 1" in lines and "9,000" in lines


def test_each_number_has_one_meaning(recorded: Recorded) -> None:
    report = recorded.json()
    totals, deeds = report["totals"], [deed for request in report["requests"] for deed in request["deeds"]]
    assert totals["requests"] == len(report["requests"]) == 8 and totals["turns"] == len(report["turns"]) == 2
    assert totals["commands"] == sum(deed["kind"] == "command" for deed in deeds) == 6
    assert (totals["files_changed"], totals["edits"]) == (0, 3)
    page = recorded.run("context", recorded.thread_id, "--html")
    tiles = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    named = ("turns", "requests", "commands run", "files changed by patches", "context edits", "compactions")
    assert [tiles[name] for name in named] == ["2", "8", "6", "0", "3", "1"]
    # The ledger knows each command once, and a prompt is not called a request there.
    assert "The work ledger: 2 prompts, 1 file read, 1 different command<" in page
    text = " ".join(recorded.run("context", recorded.thread_id).split())
    assert "2 turns · 8 requests · 6 commands run · 0 files changed by patches · 1 compaction · 3 context" in text


def test_times_are_local_and_name_their_zone(recorded: Recorded) -> None:
    at = recorded.json()["requests"][0]["at"]
    env = {**recorded.environment, "TZ": "Etc/GMT-5", "COLUMNS": "120"}
    hour = (int(at[11:13]) + 5) % 24
    for form in ([], ["--html"]):
        command = [*recorded.command, "context", recorded.thread_id, *form]
        shown = subprocess.run(command, cwd=recorded.folder, env=env, capture_output=True, text=True, timeout=60).stdout
        assert f"{hour:02}{at[13:16]} UTC+05" in shown and f"{hour:02}{at[13:19]}" in shown
    assert "<th>time (UTC+05)</th>" in shown


def test_the_text_of_one_request_drives_no_terminal_and_hides_nothing(recorded: Recorded) -> None:
    shown = recorded.run("context", recorded.thread_id, "--request", "2")
    assert "begin <script>alert(1)</script>" in shown and "gnp.exe" in shown
    assert not re.search("[\x1b\u202e\u2066\u200b]", shown) and "\\u{202E}gnp.exe" in shown


def test_the_page_of_documentation_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "context.md").read_text()
    named = set(re.findall(r"`(\w+)`", page.split("| field of `--json`")[1]))
    forms = (ContextReport, Totals, TurnReport, RequestReport, Deed, Cache, Break)
    assert {name for form in forms for name in form.__struct_fields__} - named == set()


# ---- which thread, which place -------------------------------------------------------------------------


def test_a_thread_is_found_by_id_name_file_and_as_the_last_one(recorded: Recorded) -> None:
    by_id = recorded.json()
    assert json.loads(recorded.run("context", by_id["path"], "--json")) == by_id
    assert json.loads(recorded.run("context", "--last", "--json")) == by_id
    home = Path(recorded.environment["CODEX_HOME"])
    entry = {"id": recorded.thread_id, "thread_name": "my <b>work", "updated_at": "2026-11-15T00:00:00Z"}
    (home / "session_index.jsonl").write_text(json.dumps(entry) + "\n")
    assert json.loads(recorded.run("context", "my <b>work", "--json")) == {**by_id, "name": "my <b>work"}
    assert "<h1>my &lt;b&gt;work</h1>" in recorded.run("context", "my <b>work", "--html")
    (home / "session_index.jsonl").unlink()


def test_debug_context_is_the_same_table(recorded: Recorded) -> None:
    table = recorded.run("context", recorded.thread_id)
    assert recorded.run("debug", "context", recorded.thread_id) == table
    assert recorded.run("debug", "context") == table
    assert "it is an option of `spindle debug context`" in recorded.run("debug", "prompt-input", "--json", code=2)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "usage: spindle context THREAD"),
        (["a", "b"], 2, "usage: spindle context THREAD"),
        (["nobody"], 1, "no thread has the id or the name 'nobody'"),
        (["ID", "--request", "99"], 2, "no request 99 in this thread; there are 8"),
        (["ID", "--request", "x"], 2, "--request takes the number of a request"),
        (["ID", "--json", "--html"], 2, "do not go together"),
        (["ID", "--html", "no/such/folder/x.html"], 1, "the page cannot be written to no/such/folder/x.html"),
        (["hostile.txt"], 1, "is not a rollout file"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(recorded: Recorded, words: list[str], code: int, said: str) -> None:
    given = [recorded.thread_id if word == "ID" else word for word in words]
    shown = recorded.run("context", *given, code=code)
    assert said in shown and "Traceback" not in shown


@pytest.mark.parametrize(
    "form", [["ID", "--html", "out.html"], ["--html", "out.html", "ID"], ["ID", "--html=out.html"]]
)
def test_a_page_goes_to_a_file_that_only_its_owner_reads(recorded: Recorded, form: list[str]) -> None:
    out = recorded.folder / "out.html"
    assert recorded.run("context", *(recorded.thread_id if word == "ID" else word for word in form)) == "out.html\n"
    assert out.read_text() == recorded.run("context", recorded.thread_id, "--html")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    out.unlink()
    assert list(recorded.folder.glob("*.new")) == []


def test_a_page_for_a_terminal_goes_to_a_file(recorded: Recorded) -> None:
    leader, follower = pty.openpty()
    subprocess.run(
        [*recorded.command, "context", recorded.thread_id, "--html"],
        cwd=recorded.folder,
        env=recorded.environment,
        stdout=follower,
        check=True,
        timeout=60,
    )
    os.close(follower)
    name = os.read(leader, 1000).decode().strip()
    os.close(leader)
    assert name == f"context-{recorded.thread_id}.html"
    assert (recorded.folder / name).read_text().startswith("<!doctype html>")
    (recorded.folder / name).unlink()


def test_threads_of_codex_and_empty_ones_give_a_report_too(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("codex-0.101.0", "codex-0.166.0"):
        assert "5 requests" in recorded.run("context", str(FIXTURES / f"{name}.jsonl"))
        assert "<svg" in recorded.run("context", str(FIXTURES / f"{name}.jsonl"), "--html")
    first = (FIXTURES / "codex-0.101.0.jsonl").read_text().splitlines()[0]
    (tmp_path / "empty.jsonl").write_text(first + "\n")
    assert "no request is recorded yet" in recorded.run("context", str(tmp_path / "empty.jsonl"))
    assert "No request is recorded" in recorded.run("context", str(tmp_path / "empty.jsonl"), "--html")


def test_odd_file_names_and_poor_terminals_are_no_obstacle(recorded: Recorded, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/\xff\xe2\x80\xae.jsonl"
    Path(os.fsdecode(odd)).write_bytes((FIXTURES / "codex-0.101.0.jsonl").read_bytes())
    for form in ([], ["--json"], ["--html"], ["--request", "2"]):
        done = subprocess.run(
            [*recorded.command, "context", odd, *form],
            env={**recorded.environment, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, b"") and b"permissions" in done.stdout


def test_a_reader_that_leaves_early_is_no_error(recorded: Recorded) -> None:
    command = f'set -o pipefail; "$@" context {recorded.thread_id} --request 6 | head -n 1'
    done = subprocess.run(
        ["bash", "-c", command, "bash", *recorded.command],
        cwd=recorded.folder,
        env=recorded.environment,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")


# ---- the page ------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a page consists of, and whether its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "section", "h1", "h2", "h3", "p", "code", "pre"),
    *("dl", "dt", "dd", "div", "span", "i", "b", "a", "ul", "li", "table", "tr", "th", "td", "details", "summary"),
    *("figure", "figcaption", "svg", "g", "path", "rect", "defs", "pattern"),
}


@pytest.mark.parametrize("request_flags", [[], ["--request", "2"]])
def test_nothing_of_a_thread_becomes_html(recorded: Recorded, request_flags: list[str]) -> None:
    text = recorded.run("context", recorded.thread_id, "--html", *request_flags)
    page = Page(text)
    assert page.open == [] and set(page.tags) - ALLOWED == set()
    names = {name for name, _ in page.attributes}
    assert not any(name.startswith("on") for name in names) and names.isdisjoint({"src", "srcset", "action", "srcdoc"})
    links = {value for name, value in page.attributes if name in ("href", "xlink:href")}
    assert links and all(re.fullmatch(r"#r\d+", link) for link in links)
    targets = {value for name, value in page.attributes if name == "id"}
    assert set(re.findall(r"url\((.*?)\)", text)) == {f"#{target}" for target in targets if target[:2] == "p-"}
    assert {link[1:] for link in links} <= targets
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x1b]", text)
    shown = "".join(page.texts)
    assert "<script>document.title='owned'" in shown and "\\u{202E}gnp.exe" in shown
    assert ('content="default-src &#x27;none&#x27;; style-src' in text) and "@import" not in text


def figures(page: str) -> dict[str, str]:
    """The plots by their titles."""
    return {
        re.findall(r"<h3>(.*?)</h3>", plot)[0]: plot for plot in re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    }


def columns(plot: str, kind: str) -> dict[int, tuple[float, float]]:
    """The bars of a kind: from which height to which, in pixels from the top, by the number of the request."""
    path = "".join(re.findall(rf'<path d="([^"]*)" class="{kind}">', plot))
    bars = re.findall(r"M([\d.]+) ([\d.]+)H[\d.]+V([\d.]+)H", path)
    return {int(float(start)) + 1: (float(low), float(high)) for start, low, high in bars}


def test_the_plots_have_a_column_for_every_request_and_a_line_for_every_break(recorded: Recorded) -> None:
    plots = figures(recorded.run("context", recorded.thread_id, "--html"))
    assert list(plots) == [
        *("Tokens of each request", "What each input was made of", "Share of the cache", "Cost of each request")
    ]
    for plot in plots.values():
        assert plot.count('class="target"') == 8 and plot.count('class="band"') == 1
        assert plot.count('"line mark edit"') == 3 and plot.count('"line mark compaction"') == 1
        assert re.findall(r'class="turns".*?</div>', plot)[0].count("<span") == 2
    # The fourth request lost what the third had put into the cache: its column is red from the bottom.
    assert columns(plots["Share of the cache"], "lost")[4][0] == 192.0


def test_bars_start_at_zero_and_have_one_true_scale(recorded: Recorded) -> None:
    page = recorded.run("context", recorded.thread_id, "--html")
    plots, requests = figures(page), recorded.json()["requests"]
    # The window (57,000) and the limit are in range: the axis reaches to the round number above them.
    axis = [re.findall(r'<span style="bottom:[\d.]+%">(.*?)</span>', plot) for plot in plots.values()]
    assert axis[0] == axis[1] == ["0", "20k", "40k", "60k"]
    assert plots["Tokens of each request"].count('class="line level') == 2
    tops = dict.fromkeys(range(1, 9), 192.0)
    for kind in ("cached", "lost", "fresh", "made"):
        for number, (low, high) in columns(plots["Tokens of each request"], kind).items():
            assert low == tops[number]  # nothing is left out between two parts of a column
            tops[number] = high
    for request in requests:
        tokens = request["usage"]["input_tokens"] + request["usage"]["output_tokens"]
        assert 192 - tops[request["number"]] == pytest.approx(192 * tokens / 60_000, abs=0.2)
    widths = [
        sum(map(float, re.findall(r"width:([\d.]+)%", bar)))
        for bar in re.findall(r'<span class="bar">(.*?)</span>', page.split("Request by request")[1])[:8]
    ]
    most = max(request["usage"]["total_tokens"] for request in requests)
    assert widths == pytest.approx([100 * request["usage"]["total_tokens"] / most for request in requests], abs=0.3)


def test_the_page_tells_what_each_request_did_under_the_prompt_of_its_turn(recorded: Recorded) -> None:
    page = recorded.run("context", recorded.thread_id, "--html")
    assert "<h1>begin &lt;script&gt;alert(1)&lt;/script&gt;</h1>" in page
    turns = re.findall(r'<tr class="turn[^"]*"><td colspan="11">(.*?)</td>', page)
    assert len(turns) == 2 and turns[1].endswith("· go on") and turns[1].startswith("turn 2 · 20")
    did = re.findall(r'<td>\d\d:\d\d:\d\d</td><td class="words">(.*?)</td>', page)
    assert did[0] == "ran cat hostile.txt" and did[6:] == ["answered: “done”", "answered: “switched”"]


def test_a_long_thread_is_a_page_that_can_still_be_used(recorded: Recorded, tmp_path: Path) -> None:
    lines = [(FIXTURES / "codex-0.101.0.jsonl").read_text().splitlines()[0]]

    def add(kind: str, payload: dict[str, Any]) -> None:
        lines.append(json.dumps({"timestamp": "2026-11-15T19:34:02.959Z", "type": kind, "payload": payload}))

    total = 0
    for number in range(1, 1_201):
        if number % 300 == 1:
            content = [{"type": "input_text", "text": f"prompt {number}"}]
            add("response_item", {"type": "message", "role": "user", "content": content})
        call_id, used = f"c{number}", 5_000 + 80 * number
        arguments = json.dumps({"cmd": f"echo {number}"})
        call = {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call_id}
        add("response_item", call)
        add("response_item", {"type": "function_call_output", "call_id": call_id, "output": "x" * 4_000})
        total += used
        counts = {
            "input_tokens": used,
            "cached_input_tokens": used - 100,
            "output_tokens": 20,
            "total_tokens": used + 20,
        }
        sums = {**counts, "input_tokens": total, "total_tokens": total}
        info = {"total_token_usage": sums, "last_token_usage": counts, "model_context_window": 258_400}
        add("event_msg", {"type": "token_count", "info": info})
    (tmp_path / "long.jsonl").write_text("\n".join(lines) + "\n")
    page = recorded.run("context", str(tmp_path / "long.jsonl"), "--html")
    assert "<dt>requests</dt><dd>1,200</dd>" in page and len(page) < 3_500_000
    plots = figures(page)
    for plot in plots.values():
        assert plot.count('class="target"') <= 250  # one that is pointed at stands for several columns
    # Each request still has its own column, and what cannot be pointed at is in the table and below it.
    assert set(columns(plots["Tokens of each request"], "cached")) == set(range(1, 1_201))
    assert {int(number) for number in re.findall(r'id="r(\d+)"', page)} == set(range(1, 1_201))
    assert page.count('<tr class="turn') == 4


@pytest.mark.parametrize(
    ("settings", "costs"),
    [
        # The catalogue's price of gpt-5.2-codex and gpt-5.2: 1.75, 0.175 and 14 dollars for a million tokens.
        ("", [(9_000 * 1.75 + 10 * 14) / 1e6, (4_040 * 1.75 + 8_960 * 0.175 + 10 * 14) / 1e6]),
        ("spindle.context.prices={input=2, cached_input=1, output=4}", [0.01804, 0.01708]),
    ],
)
def test_requests_have_their_price(recorded: Recorded, settings: str, costs: list[float]) -> None:
    flags = ["-c", settings] if settings else []
    report = recorded.json(*flags)
    assert [request["cost_usd"] for request in report["requests"]][:2] == pytest.approx(costs)
    total = sum(request["cost_usd"] for request in report["requests"])
    assert report["totals"]["cost_usd"] == pytest.approx(total) and report["totals"]["unpriced_requests"] == 0
    page = recorded.run("context", recorded.thread_id, "--html", *flags)
    assert f"<dt>cost</dt><dd>${total:.3f}</dd>" in page and "for summaries and sub-agents" in page


def test_a_price_that_nobody_named_is_unknown_and_not_zero(recorded: Recorded, tmp_path: Path) -> None:
    lines = Path(recorded.json()["path"]).read_text().replace('"gpt-5.2', '"house-model')
    (tmp_path / "other.jsonl").write_text(lines)
    report = json.loads(recorded.run("context", str(tmp_path / "other.jsonl"), "--json"))
    assert {request["cost_usd"] for request in report["requests"]} == {None} == {report["totals"]["cost_usd"]}
    page = recorded.run("context", str(tmp_path / "other.jsonl"), "--html")
    assert "<dt>cost</dt><dd>unknown</dd>" in page and "<h3>Cost of each request" not in page and "$" not in page
    assert "cost unknown: no price is known" in recorded.run("context", str(tmp_path / "other.jsonl"))


# ---- colours -------------------------------------------------------------------------------------------

SHEET = (Path(__file__).parents[2] / "src" / "spindle" / "frontends" / "context" / "page.css").read_text()


def palette(scheme: str) -> dict[str, str]:
    light, dark = SHEET.split("@media (prefers-color-scheme: dark)")
    return dict(re.findall(r"--([\w-]+): (#\w{6});", (light if scheme == "light" else dark).split("\n}")[0]))


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] + 0.05

    return max(light(one), light(other)) / min(light(one), light(other))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_and_bars_be_seen_in_both_schemes(scheme: str) -> None:
    colours = palette(scheme)
    for name in ("text", "dim", "link", "bad"):
        assert min(contrast(colours[name], colours[ground]) for ground in ("back", "soft")) >= 4.5, name
    bars = {name: colour for name, colour in colours.items() if name.startswith("s-") or name in PAINTS}
    assert {f"s-{source}" for source in SOURCES} <= set(bars) and set(bars) >= PAINTS
    assert {
        name: contrast(colour, colours["back"])
        for name, colour in bars.items()
        if contrast(colour, colours["back"]) < 3
    } == {}
    # No colour has two meanings.
    assert len(set(bars.values())) == len(bars)


PAINTS = {"cached", "lost", "fresh", "made", "guess", "cost"}


def test_there_is_one_legend_and_it_explains_every_colour_that_is_drawn(recorded: Recorded) -> None:
    page = recorded.run("context", recorded.thread_id, "--html")
    (legend,) = re.findall(r'<ul class="legend">.*?</ul>', page)
    explained = re.findall(r'<i class="([\w-]+)"></i>', legend)
    drawn = {kind for plot in figures(page).values() for kind in re.findall(r'<path d="[^"]*" class="([\w-]+)">', plot)}
    assert len(set(explained)) == len(explained) and drawn - {"band"} == set(explained)


# ---- in a browser --------------------------------------------------------------------------------------

in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt install chromium)")


class Seen:
    """A page as Chromium saw it."""

    def __init__(self, page: Path, scratch: Path) -> None:
        assert CHROMIUM is not None
        log = scratch / "net.json"
        done = subprocess.run(
            [
                CHROMIUM,
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                # Chromium itself would call home; what the page asks of this machine still gets there.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                *(f"--user-data-dir={scratch / 'profile'}", f"--log-net-log={log}", "--enable-logging=stderr"),
                *("--virtual-time-budget=3000", "--dump-dom", page.as_uri()),
            ],
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        self.dom = done.stdout.decode()
        self.console = [line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
        events = json.loads(log.read_text())
        start = events["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
        params = [event.get("params", {}) for event in events["events"] if event["type"] == start]
        # What Chromium asks on its own account has no page behind it.
        self.asked = [each["url"] for each in params if each.get("initiator", "not an origin") != "not an origin"]


@in_a_browser
def test_a_browser_shows_the_page_without_a_script_or_a_network(recorded: Recorded, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(recorded.run("context", recorded.thread_id, "--html", "--request", "2"))
    seen = Seen(page, tmp_path)
    assert (seen.asked, seen.console, recorded.listener.heard) == ([], [], [])
    shown = Page(seen.dom.partition("\n")[2] if seen.dom.startswith("<!") else seen.dom)
    written = Page(page.read_text())
    # The browser built exactly what was written: nothing was closed early, nothing was moved.
    assert [tag for tag in shown.tags if tag != "tbody"] == written.tags
    assert seen.dom.count("<figure") == 4 and "<title>begin &lt;script&gt;alert(1)&lt;/script&gt; · context" in seen.dom


@in_a_browser
def test_the_check_in_the_browser_would_notice(recorded: Recorded, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><title>x</title><body>" + HOSTILE.format(port=recorded.listener.port))
    seen = Seen(page, tmp_path)
    assert seen.asked and seen.console and "/canary" in recorded.listener.heard
    recorded.listener.heard.clear()


@in_a_browser
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_every_screen(recorded: Recorded, tmp_path: Path, width: int) -> None:
    text = recorded.run("context", recorded.thread_id, "--html")
    # The page forbids scripts, so the ruler is put into a copy without that rule; a window cannot be as narrow as a
    # phone, a frame can.
    ruler = (
        "<script>addEventListener('load', () => parent.postMessage([document.documentElement.scrollWidth,"
        "innerWidth, document.querySelector('.plot svg').getBoundingClientRect().height,"
        "Math.max(...[...document.querySelectorAll('.x span')].map(it => it.offsetHeight))], '*'))</script>"
    )
    # As in a long thread, where the last number stands at the edge.
    text = re.sub(r'<span style="left:[^"]*">\d+</span></div>', '<span style="left:99.99%">5000</span></div>', text)
    text, changes = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', ruler, text)
    assert changes == 1
    (tmp_path / "page.html").write_text(text)
    (tmp_path / "frame.html").write_text(
        "<!doctype html><script>addEventListener('message', it => document.body.dataset.measured = it.data)</script>"
        f'<body><iframe src="page.html" style="border:0;width:{width}px;height:900px"></iframe>'
    )
    seen = Seen(tmp_path / "frame.html", tmp_path)
    ((needed, given, height, label),) = re.findall(r'data-measured="(\d+),(\d+),([\d.]+),(\d+)"', seen.dom)
    assert int(needed) <= int(given) <= width and float(height) > 100
    assert 5 < int(label) < 30  # one line of small print
