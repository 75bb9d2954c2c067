"""What the command line of `exec` asks for: which thread, which prompt, which files. All that can be wrong with it is
found before a request is paid for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from spindle.errors import ConfigError, SpindleError, UsageError
from spindle.frontends.launch import is_inside_repository
from spindle.frontends.options import Parsed, whole_number
from spindle.protocol.ops import GoalClear, GoalSet, Op

if TYPE_CHECKING:
    from spindle.config.schema import Config
    from spindle.protocol.settings import BudgetLimits
    from spindle.workspace.output_file import OutputFile

MAX_PROMPT_BYTES = 1 << 20


class ExecArgs(msgspec.Struct, frozen=True, kw_only=True):
    """The words of the line, sorted."""

    action: str
    """"run", "resume" or "fork"."""
    thread: str | None
    """Id or name; None = a new thread, or with `last` the newest."""
    last: bool
    prompt: str | None


def read_args(parsed: Parsed, words: list[str]) -> ExecArgs:
    """Sort the positional words: [PROMPT], or after resume and fork [THREAD] [PROMPT]."""
    action = parsed.command[1] if len(parsed.command) > 1 else "run"
    rest = list(words)
    last = parsed.flag("last")
    thread = rest.pop(0) if action != "run" and not last and rest else None
    if action != "run" and thread is None and not last:
        raise UsageError(f"`exec {action}` needs a thread id or name, or --last")
    if len(rest) > 1:
        raise UsageError(f"unexpected argument {rest[1]!r}; put the prompt into quotes")
    return ExecArgs(action=action, thread=thread, last=last, prompt=rest[0] if rest else None)


def fork_point(text: str | None) -> str | int | None:
    """A number is a count of turns to keep; anything else names a response."""
    number = None if text is None else whole_number(text)
    return text if number is None else number


def check_folder(parsed: Parsed, config: Config) -> None:
    """Raise ConfigError where nobody has said that the agent may work here."""
    if not (
        parsed.flag("skip_git_repo_check")
        or parsed.flag("dangerously_bypass_approvals_and_sandbox")
        or config.trust_level == "trusted"
        or is_inside_repository(config.cwd)
    ):
        raise ConfigError(
            "Not inside a trusted directory and --skip-git-repo-check was not specified. "
            "Work in a Git repository (`git init` makes one), or add that option."
        )


def check_files(parsed: Parsed) -> dict[str, object] | None:
    """Look at the files the line names; the result is the output schema."""
    if not any(key in parsed.values for key in ("image", "output_schema")):
        return None
    from spindle.frontends.exec import files  # few lines name any

    files.check_images(parsed.many("image"))
    return files.read_schema(parsed.value("output_schema"))


def named_output(parsed: Parsed, config: Config) -> OutputFile | None:
    """The file for the last message, opened before the agent is at work; its links are followed only now."""
    path = parsed.value("output_last_message")
    if path is None:
        return None
    from spindle.config.agent_reach import widest_reach  # few lines name a file
    from spindle.frontends.exec.files import open_output  # likewise

    return open_output(path, widest_reach(config))


def run_budget(parsed: Parsed, config: Config) -> BudgetLimits | None:
    """What the line allows for a turn holds for the whole run, however many turns a goal takes."""
    is_said = any(parsed.value(name) is not None for name in ("max_requests", "max_tokens", "max_cost"))
    return config.spindle.budget if is_said else None


# ---- the goal and the prompt -------------------------------------------------------------------------


def read_goal(parsed: Parsed) -> str | None:
    """The objective of `--goal`. Raises UsageError."""
    if (given := parsed.value("goal")) is None:
        return None
    from spindle.protocol.goal import check_objective  # few runs have a goal

    if parsed.value("output_schema") is not None:
        raise UsageError("--output-schema does not go with --goal: it is about the answer of one turn")
    try:
        return check_objective(given)
    except SpindleError as error:
        raise UsageError(f"--goal: {error}") from error


def goal_ops(args: ExecArgs, goal: str | None) -> list[Op]:
    """What sets the goal, in the place of one that a recorded thread may have."""
    if goal is None:
        return []
    return [GoalSet(objective=goal)] if args.action == "run" else [GoalClear(), GoalSet(objective=goal)]


def read_first_words(args: ExecArgs, parsed: Parsed, *, has_goal: bool) -> str | None:
    """The prompt; None where a goal alone is enough to begin."""
    if args.prompt is None and has_goal:
        return None
    try:
        text = read_prompt(args)
        if not text.strip() and not parsed.many("image"):  # a variable that is not set, most likely
            raise SpindleError("the prompt is empty; nothing was sent")
        return text
    except SpindleError:
        if args.prompt is None and args.action == "resume" and not parsed.many("image"):
            from spindle.frontends.exec.goal_at_rest import has_active_goal  # only where nothing is said

            if has_active_goal(args, parsed):
                return None
        raise


def read_prompt(args: ExecArgs) -> str:
    """The prompt from the argument, from stdin, or from both."""
    given = args.prompt
    if given is not None and given != "-":
        piped = "" if args.action != "run" else _piped_input()
        return f"{given}\n\n<stdin>\n{piped}\n</stdin>" if piped.strip() else given
    if sys.stdin is None or (given is None and sys.stdin.isatty()):
        raise SpindleError("no prompt: give it as an argument, or pipe it in")
    return read_text()


def read_text() -> str:
    """The prompt from stdin alone."""
    if sys.stdin is None:
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
