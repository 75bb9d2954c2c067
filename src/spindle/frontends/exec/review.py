"""`spindle review` and `spindle exec review`: one review, shown like a run of `exec`, with an exit code to gate by.

Exit code 3 says that `--fail-on` found something; the others are those of `exec`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from spindle.api.door import SessionRequest
from spindle.errors import SpindleError, UsageError
from spindle.frontends.exec.arguments import check_folder, named_output, read_text
from spindle.frontends.exec.command import drive
from spindle.frontends.exec.files import open_output
from spindle.frontends.exec.gate import Gate
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.protocol.ops import Review
from spindle.protocol.review import BaseBranch, Commit, Custom, Target, Uncommitted, hint_of
from spindle.protocol.settings import SandboxPolicy

if TYPE_CHECKING:
    from spindle.config.schema import Config

_TARGETS = "--uncommitted, --base BRANCH, --commit SHA, or a prompt of your own"
FAIL_ON = ("P0", "P1", "P2", "P3")


def run(parsed: Parsed, words: list[str]) -> int:
    """Have something reviewed and give the exit code."""
    if parsed.value("output_schema") is not None:
        raise UsageError(
            "--output-schema cannot be combined with a review, whose result has a fixed form (--json shows it)"
        )
    if parsed.value("goal") is not None:
        raise UsageError("--goal does not go with a review: that is one turn")
    if parsed.many("image"):
        raise UsageError("a review takes no pictures (-i)")
    target = read_target(parsed, words)
    config = config_from(parsed, headless=True)
    # So that what is shown is what holds; where this cannot be said here, the session narrows it all the same.
    if config.sandbox.permissions is None and "read-only" in (config.allowed_sandbox_modes or ("read-only",)):
        config = msgspec.structs.replace(config, sandbox=SandboxPolicy(mode="read-only"))
    output = named_output(parsed, config)
    gate = _gate(parsed, config)
    check_folder(parsed, config)
    request = SessionRequest(
        config=config,
        source="exec",
        originator="codex_exec",
        is_attended=False,
        ephemeral=parsed.flag("ephemeral"),
    )
    wanted = {"target": msgspec.to_builtins(target), "user_facing_hint": hint_of(target)}
    return asyncio.run(drive(request, [Review(review_request=wanted)], parsed, output, gate))


def read_target(parsed: Parsed, words: list[str]) -> Target:
    """What the line wants reviewed. Raises UsageError for two targets, SpindleError for none."""
    base, commit, title = parsed.value("base"), parsed.value("commit"), parsed.value("title")
    named = {
        "--uncommitted": parsed.flag("uncommitted"),
        "--base": base is not None,
        "--commit": commit is not None,
        "a prompt": bool(words),
    }
    given = [name for name, is_given in named.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"a review has one target, and this line has {' and '.join(given)}; use one of {_TARGETS}")
    if title is not None and commit is None:
        raise UsageError("--title goes with --commit")
    if not given:
        raise SpindleError(f"nothing to review is named; use {_TARGETS}")
    if base is not None:
        return BaseBranch(branch=_filled(base, "--base needs the name of a branch"))
    if commit is not None:
        sha = _filled(commit, "--commit needs the hash of a commit")
        return Commit(sha=sha, title=(title or "").strip() or None)
    if words:
        text = read_text() if words[0] == "-" else words[0]
        return Custom(instructions=_filled(text, f"the prompt of the review is empty; use {_TARGETS}"))
    return Uncommitted()


def _filled(text: str, problem: str) -> str:
    if not (text := text.strip()):
        raise SpindleError(problem)
    return text


def _gate(parsed: Parsed, config: Config) -> Gate:
    fail_on, path = parsed.value("fail_on"), parsed.value("sarif")
    report = None
    if path is not None:
        from spindle.config.agent_reach import widest_reach  # few lines name a file

        report = open_output(path, widest_reach(config), what="the report", option="--sarif")
    return Gate(None if fail_on is None else FAIL_ON.index(fail_on), report, config.cwd)
