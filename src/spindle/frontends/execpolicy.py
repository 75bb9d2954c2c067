"""`spindle execpolicy check [--rules FILE]… COMMAND`: which rules speak about a command, and what they say, as JSON."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.policy.rules import RuleSet, read_rules_file, strictest


def run(parsed: Parsed, words: list[str]) -> int:
    rules = _rules(parsed)
    # What is no text cannot stand in JSON; no rule matches it either.
    command = [word.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for word in words]
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
