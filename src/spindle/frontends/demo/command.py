"""`spindle demo`: no account, no network. A scratch repository, a failing test, and a practice model that mends it.

Everything but the model is real: the loop, the tools, the sandbox, the patch, the record.
"""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec

from spindle import __version__
from spindle.api.door import SessionRequest, open_thread
from spindle.config.load import LoadOptions, load_config
from spindle.config.schema import Config
from spindle.frontends.demo.story import practice_model
from spindle.frontends.options import Parsed
from spindle.frontends.plain_text import Look
from spindle.frontends.practice_scene import PROMPT, set_scene
from spindle.frontends.terminal import STDOUT, columns_of
from spindle.frontends.transcript import Transcript
from spindle.process.sandbox import backend_of, problem
from spindle.protocol.events import (
    AgentMessageContentDelta,
    Error,
    ExecCommandEnd,
    Msg,
    SessionConfigured,
    TaskComplete,
    TurnAborted,
)
from spindle.protocol.ops import UserTurn

PACE_S = 0.35
SHOWN_OUTPUT_LINES = 14


def run(parsed: Parsed, words: list[str]) -> int:
    import shutil  # only the demo makes a scratch folder
    import tempfile  # the same

    scratch = os.path.realpath(tempfile.mkdtemp(prefix="spindle-demo-"))
    try:
        return asyncio.run(play(scratch, 0.0 if parsed.flag("fast") else PACE_S, keep=parsed.flag("keep")))
    finally:
        if not parsed.flag("keep"):
            shutil.rmtree(scratch, ignore_errors=True)


async def play(scratch: str, pace_s: float, *, keep: bool) -> int:
    """Set the scene, run one turn, and say what was real. Exit code 0 only if the tests really pass at the end."""
    project, home = f"{scratch}/textstats", f"{scratch}/home"
    set_scene(project, home)
    config = load_config(
        cwd=project,
        env={**os.environ, "CODEX_HOME": home},
        flags={"model": "gpt-5.2-codex", "sandbox_mode": "workspace-write"},
        options=LoadOptions(headless=True),
    )
    say("Spindle demo: a practice model answers from a script; no real model is asked.")
    say("The loop, the tools, the sandbox and the patch are real.")
    say(await sandbox_line(config))
    say(f"scratch repository: {project}\n")
    model = practice_model(sys.executable, pace_s)
    request = SessionRequest(config=config, source="exec", originator="codex_exec", client=model)
    thread = await open_thread(request)
    events = thread.subscribe(skip=(AgentMessageContentDelta,))
    thread.begin()
    transcript = Transcript(
        Look(
            color=sys.stdout.isatty() and not os.environ.get("NO_COLOR"),
            max_output_lines=SHOWN_OUTPUT_LINES,
            width=lambda: columns_of(STDOUT),
        ),
        version=__version__,
        summary=thread.settings.summary,
    )
    thread.submit(UserTurn(items=[{"type": "text", "text": PROMPT}]))
    results: dict[str, int] = {}
    failed = False
    async for event in events:
        say(transcript.translate(as_told(event.msg)), end="")
        match event.msg:
            case ExecCommandEnd(call_id=call_id, exit_code=code):
                results[call_id] = code
            case Error() | TurnAborted():
                failed = True
            case _:
                pass
        if isinstance(event.msg, TaskComplete | TurnAborted):
            break
    await thread.close()
    mended = not failed and results.get("test-1", 0) != 0 and results.get("test-2") == 0
    say("\n" + closing_words(mended, project if keep else None))
    return 0 if mended else 1


def as_told(msg: Msg) -> Msg:
    """The header must not name a model or a provider as if it were asked."""
    if not isinstance(msg, SessionConfigured):
        return msg
    return msgspec.structs.replace(
        msg, model=f"a practice script; {msg.model} is not asked", model_provider_id="none; no server is asked"
    )


async def sandbox_line(config: Config) -> str:
    """In what the commands of the demo run."""
    fence = config.spindle.fence
    if (reason := await problem(fence)) is not None:
        return f"sandbox: none. {reason[0].upper()}{reason[1:]}."
    return f"sandbox: {backend_of(fence)}, mode {config.sandbox.mode}, no network"


def closing_words(mended: bool, kept: str | None) -> str:
    if not mended:
        return "The demo did not end as it should: the tests do not pass. `spindle demo --keep` leaves all in place."
    where = f" It is still there: {kept}" if kept else " (--keep would have left it in place.)"
    return (
        "The test failed before and passes now, in a scratch repository." + where + "\n"
        'Next: `spindle exec "your request"` in one of your repositories, with OPENAI_API_KEY set, or --oss and Ollama.'
    )


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)
