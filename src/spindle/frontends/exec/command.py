"""`spindle exec`: parse, assemble, translate, exit code.

Exit codes: 0 the turn completed · 1 it failed, was interrupted, or could not be set up · 2 bad arguments ·
130 a second Ctrl-C · 143 SIGTERM · 129 SIGHUP.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Protocol

import msgspec

from spindle.assembly import SessionRequest, open_session
from spindle.core.session import Session
from spindle.errors import ConfigError, SpindleError, UsageError
from spindle.frontends import standard_streams
from spindle.frontends.launch import (
    config_from,
    image_items,
    is_inside_repository,
    use_local_server,
    warn_of_bypass,
)
from spindle.frontends.options import Parsed
from spindle.protocol.clock import SystemClock
from spindle.protocol.events import (
    AgentMessageContentDelta,
    Error,
    ExecCommandOutputDelta,
    Msg,
    ReasoningContentDelta,
    TaskComplete,
    TurnAborted,
)
from spindle.protocol.ops import Interrupt, Shutdown, Submission, UserTurn
from spindle.thread.layout import is_thread_id
from spindle.thread.store import ThreadStore

MAX_PROMPT_BYTES = 1 << 20
UNSHOWN: tuple[type[Msg], ...] = (AgentMessageContentDelta, ReasoningContentDelta, ExecCommandOutputDelta)


class ExecArgs(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    action: str
    """"run", "resume" or "fork"."""
    thread: str | None
    """Id or name; None = a new thread, or with `last` the newest."""
    last: bool
    prompt: str | None
    options: Parsed


def read_args(parsed: Parsed, words: list[str]) -> ExecArgs:
    """Sort the positional words: [PROMPT], or after resume and fork [THREAD] [PROMPT]."""
    action = parsed.command[1] if len(parsed.command) > 1 else "run"
    rest = list(words)
    last = parsed.flag("last")
    thread = rest.pop(0) if action != "run" and not last and rest else None
    if action == "fork" and thread is None and not last:
        raise UsageError("`exec fork` needs a thread id or name, or --last")
    if action == "resume" and thread is None and not last:
        raise UsageError("`exec resume` needs a thread id or name, or --last")
    if len(rest) > 1:
        raise UsageError(f"unexpected argument {rest[1]!r}; put the prompt into quotes")
    return ExecArgs(action=action, thread=thread, last=last, prompt=rest[0] if rest else None, options=parsed)


def check_files(parsed: Parsed) -> dict[str, object] | None:
    """Look at the files the line names, before a request is paid for; the result is the output schema."""
    if not any(key in parsed.values for key in ("image", "output_last_message", "output_schema")):
        return None
    from spindle.frontends.exec import files  # few lines name any

    files.check_images(parsed.many("image"))
    files.check_output(parsed.value("output_last_message"))
    return files.read_schema(parsed.value("output_schema"))


def run(parsed: Parsed, words: list[str]) -> int:
    """Run one prompt and give the exit code."""
    args = read_args(parsed, words)
    schema = check_files(parsed)
    prompt = read_prompt(args)
    config = config_from(parsed, headless=True)
    bypass = parsed.flag("dangerously_bypass_approvals_and_sandbox")
    if not (
        parsed.flag("skip_git_repo_check")
        or bypass
        or config.trust_level == "trusted"
        or is_inside_repository(config.cwd)
    ):
        raise ConfigError("Not inside a trusted directory and --skip-git-repo-check was not specified.")
    warn_of_bypass(parsed)
    request = SessionRequest(
        config=config,
        source="exec",
        originator="codex_exec",
        ephemeral=parsed.flag("ephemeral"),
        thread=_thread_id(args.thread, config.home),
        newest=args.last,
        any_folder=parsed.flag("all"),
        fork=args.action == "fork",
        fork_at=_fork_point(parsed.value("at")),
        bypass=bypass,
    )
    turn = UserTurn(
        items=[*image_items(parsed.many("image")), {"type": "text", "text": prompt}],
        final_output_json_schema=schema,
    )
    return asyncio.run(drive(request, turn, args))


def _thread_id(given: str | None, home: str) -> str | None:
    """The thread that a person names by its id, the beginning of it, or its name."""
    if given is None or is_thread_id(given):
        return given
    return ThreadStore(home, SystemClock()).choose(given).id


def _fork_point(text: str | None) -> str | int | None:
    """A number is a count of turns to keep; anything else names a response."""
    return int(text) if text is not None and text.isdecimal() else text


def read_prompt(args: ExecArgs) -> str:
    """The prompt from the argument, from stdin, or from both."""
    given = args.prompt
    if given is not None and given != "-":
        piped = "" if args.action != "run" else _piped_input()
        return f"{given}\n\n<stdin>\n{piped}\n</stdin>" if piped.strip() else given
    if sys.stdin is None or (given is None and sys.stdin.isatty()):
        raise SpindleError("no prompt: give it as an argument, or pipe it in")
    print("Reading prompt from stdin...", file=sys.stderr)
    text = _decode(sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1))
    if not text.strip():
        raise SpindleError("No prompt provided via stdin.")
    return text


def _piped_input() -> str:
    """What is piped in beside a prompt argument; a terminal, or nothing, counts as empty."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    try:
        return _decode(sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)).removesuffix("\n")
    except OSError:
        return ""


def _decode(data: bytes) -> str:
    if len(data) > MAX_PROMPT_BYTES:
        raise SpindleError(
            "the prompt on stdin is longer than 1 MiB; put the text into a file in the workspace and name the file"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpindleError(f"the prompt on stdin is not UTF-8 text (byte {error.start})") from error


async def drive(request: SessionRequest, turn: UserTurn, args: ExecArgs) -> int:
    """Open the thread, run the turn, print what happens, and leave nothing running."""
    config = await use_local_server(request.config, args.options)
    session = await open_session(msgspec.structs.replace(request, config=config))
    printer = make_printer(session, request, args.options)
    events = session.subscribe(skip=() if printer.wants_deltas else UNSHOWN)
    actor = asyncio.ensure_future(session.run())
    signals = Signals(session, printer)
    session.submit(Submission(request.clock.uuid7(), turn))
    failed, last_message = False, None
    try:
        async for event in events:
            if signals.caught is None or not printer.is_json:
                printer.show(event.msg)
            if isinstance(event.msg, Error):
                failed = True
            if isinstance(event.msg, TaskComplete):
                last_message = event.msg.last_agent_message
                break
            if isinstance(event.msg, TurnAborted):
                failed = True
                break
    finally:
        printer.close()
    code = signals.exit_code if signals.caught is not None else int(failed)
    if (path := args.options.value("output_last_message")) is not None:
        from spindle.frontends.exec.files import write_last_message  # few lines name a file

        code = code or int(not write_last_message(path, last_message))
    printer.finish(last_message)
    session.submit(Submission("", Shutdown()))
    await actor
    leave(code)
    return code


def leave(code: int) -> None:
    """End the process at once: everything is flushed and closed, and tearing the interpreter down takes longer."""
    os._exit(standard_streams.flush(code))


class Signals:
    """Ctrl-C and SIGTERM stop the turn; the thread stays resumable. A second Ctrl-C does not wait."""

    def __init__(self, session: Session, printer: Printer) -> None:
        self.caught: int | None = None
        self._session = session
        self._printer = printer
        loop = asyncio.get_running_loop()
        # What was ignored when we were started (nohup, a background job) stays ignored.
        numbers = [
            number
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) != signal.SIG_IGN
        ]
        for number in numbers:
            loop.add_signal_handler(number, self._stop, number)
        standard_streams.bound_writes_after(numbers)

    @property
    def exit_code(self) -> int:
        return 1 if self.caught == signal.SIGINT else 128 + (self.caught or 0)

    def _stop(self, number: int) -> None:
        if self.caught is not None:
            self._session.kill_processes()
            self._printer.abandon()
            os._exit(128 + number)
        self.caught = number
        self._printer.stopping()
        self._session.submit(Submission("", Interrupt()))


class Printer(Protocol):
    """Shows a run, to a program or to a person."""

    is_json: bool

    @property
    def wants_deltas(self) -> bool: ...

    def show(self, msg: Msg) -> None: ...

    def stopping(self) -> None:
        """The turn was asked to stop, and will."""
        ...

    def abandon(self) -> None:
        """The process ends at once; nothing more is shown."""
        ...

    def finish(self, last_message: str | None) -> None: ...

    def close(self) -> None: ...


def make_printer(session: Session, request: SessionRequest, options: Parsed) -> Printer:
    if options.flag("json"):
        return JsonPrinter(session, request)
    from spindle.frontends.exec.people import TextPrinter  # a run prints in one way or the other

    return TextPrinter(session, request, options.value("color") or "auto", write_out)


class JsonPrinter:
    """JSON lines on stdout, nothing else."""

    is_json = True
    wants_deltas = False

    def __init__(self, session: Session, request: SessionRequest) -> None:
        from spindle.frontends.exec.jsonl import JsonlTranslator, encode_line  # a run prints in one way or the other

        self._encode_line = encode_line
        self._translator = JsonlTranslator(hide_reasoning=request.config.hide_agent_reasoning)
        self._translator.set_usage(msgspec.to_builtins(session.thread.total_usage))

    def show(self, msg: Msg) -> None:
        lines = self._translator.translate(msg)
        if lines:
            write_out(b"".join(map(self._encode_line, lines)))

    def stopping(self) -> None:
        pass

    def abandon(self) -> None:
        pass

    def finish(self, last_message: str | None) -> None:
        pass

    def close(self) -> None:
        pass


def write_out(data: bytes) -> None:
    """Write to stdout at once. A reader that went away ends the run like a closed pipe ends any filter."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.kill(os.getpid(), signal.SIGTERM)
    except OSError as error:
        raise SpindleError(f"stdout cannot be written: {error.strerror}") from error
