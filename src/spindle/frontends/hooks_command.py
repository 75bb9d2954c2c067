"""`spindle hooks`: which hooks there are here, which of them may run, and a person's consent to those of a project."""

from __future__ import annotations

import sys

import msgspec

from spindle.config.hook_consent import give_consent, take_consent_back
from spindle.config.schema import Config
from spindle.errors import SpindleError
from spindle.frontends.fit import hang
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.frontends.terminal import STDOUT, columns_of
from spindle.protocol.hook_records import Hook
from spindle.protocol.quote import visible


def run(parsed: Parsed, words: list[str]) -> int:
    config = config_from(parsed, headless=False)
    action = parsed.command[1]
    if action == "list":
        return show(config, as_json=parsed.flag("json"))
    return decide(config, words, is_trusted=action == "trust")


def show(config: Config, *, as_json: bool) -> int:
    hooks: tuple[Hook, ...] = config.hooks
    if as_json:
        for hook in hooks:
            sys.stdout.buffer.write(msgspec.json.encode(hook) + b"\n")
        return 0
    for text in config.warnings:
        print(f"warning: {text}", file=sys.stderr)
    width = columns_of(STDOUT)
    for hook in hooks:
        lines = [("", visible(hook.key)), ("  ", state_of(hook))]
        lines.append((f"  {hook.event}{_matcher(hook)}: ", visible(hook.command)))
        print("\n".join(hang(start, text, width) for start, text in lines))
    if not hooks:
        print("there are no hooks here", file=sys.stderr)
    return 0


def state_of(hook: Hook) -> str:
    """Whether it runs, and where."""
    where = "inside the sandbox of the turn" if hook.is_confined else "OUTSIDE of the sandbox (sandbox = false)"
    if not hook.is_enabled:
        return "switched off (enabled = false)"
    return {
        "trusted": f"runs, {where}",
        "untrusted": "does not run: you have not agreed to it",
        "modified": "does not run: it has changed since you agreed to it",
    }[hook.trust]


def decide(config: Config, keys: list[str], *, is_trusted: bool) -> int:
    """Give or take back consent; without keys, for all hooks of the project."""
    ours = {hook.key: hook for hook in config.hooks if hook.source == "project"}
    if not ours:
        for text in config.warnings:
            print(f"warning: {text}", file=sys.stderr)
        raise SpindleError("this project has no hooks that wait for you; your own hooks run without asking you")
    if unknown := [key for key in keys if key not in ours]:
        raise SpindleError(f"there is no hook {unknown[0]!r} of this project; `spindle hooks list` shows all")
    chosen = [ours[key] for key in keys] if keys else [*ours.values()]
    chosen = [hook for hook in chosen if (hook.trust == "trusted") is not is_trusted]
    if not chosen:
        print("nothing to do: " + ("all of them may run" if is_trusted else "none of them may run"), file=sys.stderr)
        return 0
    if is_trusted:
        give_consent(config.home, chosen)
    else:
        take_consent_back(config.home, [hook.key for hook in chosen])
    for hook in chosen:
        print(f"{'runs from now on' if is_trusted else 'no longer runs'}: {visible(hook.key)}: {visible(hook.command)}")
    return 0


def _matcher(hook: Hook) -> str:
    return f" ({visible(hook.matcher)})" if hook.matcher else ""
