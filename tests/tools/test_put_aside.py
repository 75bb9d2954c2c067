"""Outputs of commands that do not fit: the model gets both ends, and a handle to all of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from spindle.context.truncate import Truncation
from spindle.errors import ToolError
from spindle.policy.secrets import Secrets
from spindle.process.output import OutputRing
from spindle.tools import specs
from spindle.tools.shown_output import cut_for_model, whole_text
from tools.bench import Bench

COUNT = "seq 1 5000"
WHOLE = "".join(f"{number}\n" for number in range(1, 5001))


@pytest.fixture
def aside(bench: Bench) -> Bench:
    """Puts large outputs aside in the agent's folder."""
    bench.offload_home = str(bench.folder.parent / "home")
    bench.truncation = Truncation(mode="tokens", limit=200)
    return bench


def handle_of(output: str) -> Path:
    found = re.search(
        r"\n\[The whole output is in (\S+) \(\d+ lines, \d+ bytes\); read what you need of it\.\]", output
    )
    assert found is not None, output
    return Path(found[1])


async def test_the_whole_output_can_be_read_back(aside: Bench):
    output = await aside.run(specs.exec_command(), {"cmd": COUNT, "login": False}, "call_9")
    file = handle_of(output)
    assert file == aside.folder.parent / "home" / "spindle" / "offload" / "thread_1" / "call_9.txt"
    assert file.read_text() == WHOLE and "tokens truncated…" in output
    assert await aside.run(specs.read_file(), {"file_path": str(file), "offset": 2500, "limit": 1}) == "L2500: 2500"


@pytest.mark.parametrize("freeform", [True, False])
async def test_the_one_shot_tools_put_aside_too(aside: Bench, freeform: bool):
    aside.freeform = freeform
    script = await aside.run(specs.shell_command(), {"command": COUNT, "login": False}, "a")
    argv = await aside.run(specs.shell(), {"command": ["seq", "1", "5000"]}, "b")
    assert handle_of(script).read_text() == WHOLE
    assert (handle_of(script).parent / "b.txt").read_text() == WHOLE and "b.txt" in argv


async def test_what_fits_is_not_put_aside(aside: Bench):
    assert "[The whole" not in await aside.run(specs.exec_command(), {"cmd": "seq 1 10", "login": False})
    assert not os.path.exists(f"{aside.offload_home}/spindle")


async def test_nothing_is_put_aside_unless_it_is_wanted(aside: Bench):
    aside.offload_home = None
    assert "[The whole" not in await aside.run(specs.exec_command(), {"cmd": COUNT, "login": False})


async def test_an_output_that_cannot_be_stored_is_only_cut(aside: Bench):
    (aside.folder.parent / "home" / "spindle").write_text("in the way")
    output = await aside.run(specs.exec_command(), {"cmd": COUNT, "login": False})
    assert "tokens truncated…" in output and "[The whole" not in output


async def test_secrets_are_masked_in_what_is_put_aside_however_they_are_split(aside: Bench):
    key = "k3y-" + "s" * 40
    aside.table.secrets = Secrets(mask="known", own=lambda: [("MY_KEY", key)])
    script = f"seq 1 2000; echo {key}; printf {key[:20]}; sleep 1; seq 1 1000; echo {key[20:]}; seq 1 1000"
    first = await aside.run(specs.exec_command(), {"cmd": script, "login": False, "yield_time_ms": 500}, "c1")
    session = re.search(r"session ID (\d+)", first)
    assert session is not None
    second = await aside.run(specs.write_stdin(), {"session_id": int(session[1]), "yield_time_ms": 5000}, "c2")
    texts = [handle_of(output).read_text() for output in (first, second)]
    assert key[:8] not in texts[0] and texts[0].startswith("1\n2\n") and texts[1].endswith("999\n1000\n")


async def test_of_a_flood_the_ends_are_kept_and_the_gap_is_told(aside: Bench):
    output = await aside.run(specs.exec_command(), {"cmd": "seq 1 400000", "login": False}, "c")
    text = handle_of(output).read_text()
    assert re.search(r"\n\[\d+ bytes are not shown\]\n", text) and text.endswith("\n400000\n") and len(text) < 1_100_000


async def test_two_calls_of_one_id_do_not_overwrite_each_other(aside: Bench):
    for first in (1, 2):
        output = await aside.run(specs.exec_command(), {"cmd": f"seq {first} 5000", "login": False}, "same")
        assert handle_of(output).read_text().startswith(f"{first}\n")


async def test_a_handle_is_worth_nothing_to_another_thread(aside: Bench):
    file = handle_of(await aside.run(specs.exec_command(), {"cmd": COUNT, "login": False}))
    with pytest.raises(ToolError, match="failed to read file"):
        await aside.run(specs.read_file(), {"file_path": str(file).replace("thread_1", "thread_2")})


@pytest.mark.parametrize("limit", [0, 1, 50, 1_000, 200_000])
@pytest.mark.parametrize("sign", ["a", "ü", "€", "𝄞", "\udcff"])
def test_a_flood_is_cut_for_the_model_by_its_ends_alone(sign: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = OutputRing(20_000)
    ring.add((sign * 30_000).encode("utf-8", "surrogateescape"))
    cut = cut_for_model(ring.peek(), "tokens", limit)
    monkeypatch.setattr("spindle.tools.shown_output._ends_of", lambda output, most: output)
    assert cut == cut_for_model(ring.peek(), "tokens", limit)


def test_what_is_shown_of_a_plain_flood_is_plain_too() -> None:
    """One other sign in it, and Python keeps the whole text with two bytes for each character."""
    ring = OutputRing(100)
    ring.add(b"x" * 1_000)
    assert whole_text(ring.peek()).isascii()
