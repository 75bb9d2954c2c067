"""`spindle execpolicy check [--rules FILE]… COMMAND`: which rules speak about a command, and what they say, as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from spindle.errors import UsageError
from spindle.frontends.launch import config_from
from spindle.frontends.options import FLAG, LIST, Option, Parsed
from spindle.policy.rules import RuleSet, read_rules_file, strictest

OPTIONS = (
    Option(("-r", "--rules"), LIST, "a rule file to look into, instead of the ones a session would read", "FILE"),
    Option(("--pretty",), FLAG, "indent the JSON"),
    Option(("--resolve-host-executables",), FLAG, "accepted for compatibility; a program is matched as it is written"),
)
SHARED_OPTIONS = ("config", "enable", "disable", "profile", "cd", "strict_config")
"""Of the options that all front ends have, those with a meaning here."""

_USAGE = "usage: spindle execpolicy check [--rules FILE]… [--pretty] [--] COMMAND…"


def separate(arguments: Sequence[str], options: Sequence[Option]) -> list[str]:
    """`arguments` with `--` before the command that is asked about: its own options are none of ours."""
    takes_value = {name for option in options if option.kind != FLAG for name in option.names}
    at, has_verb = 0, False
    while at < len(arguments) and arguments[at] != "--":
        if arguments[at] in takes_value:
            at += 2
        elif arguments[at].startswith("-"):
            at += 1
        elif not has_verb:
            has_verb = True
            at += 1
        else:
            return [*arguments[:at], "--", *arguments[at:]]
    return list(arguments)


def run(parsed: Parsed, words: list[str]) -> int:
    if words[:1] != ["check"] or len(words) < 2:
        raise UsageError(_USAGE)
    rules = _rules(parsed)
    # What is no text cannot stand in JSON; no rule matches it either.
    command = [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in words[1:]]
    matches = rules.match(command)
    report: dict[str, Any] = {"matchedRules": []}
    for match in matches:
        said: dict[str, Any] = {"matchedPrefix": match.prefix, "decision": match.decision}
        if match.justification is not None:
            said["justification"] = match.justification
        report["matchedRules"].append({"prefixRuleMatch": said})
    if matches:
        report["decision"] = strictest(match.decision for match in matches)
    text = msgspec.json.encode(report)
    sys.stdout.buffer.write((msgspec.json.format(text, indent=2) if parsed.flag("pretty") else text) + b"\n")
    return 0


def _rules(parsed: Parsed) -> RuleSet:
    files = parsed.many("rules")
    if files:
        return RuleSet(rule for path in files for rule in read_rules_file(path))
    rules, warnings = RuleSet.load(config_from(parsed).rule_folders)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return rules
