"""`spindle grants`: what a person has allowed for good, and taking it back."""

from __future__ import annotations

import sys

import msgspec

from spindle.errors import SpindleError
from spindle.frontends.fit import hang
from spindle.frontends.launch import home_from
from spindle.frontends.options import Parsed
from spindle.frontends.terminal import STDOUT, columns_of
from spindle.policy.grants import describe, prefix_grant
from spindle.policy.rulebook import RuleBook


def run(parsed: Parsed, words: list[str]) -> int:
    rules = RuleBook(home_from())
    if parsed.command[1] == "revoke":
        return revoke(rules, words)
    grants = [prefix_grant(prefix) for prefix in rules.saved()]
    if parsed.flag("json"):
        for grant in grants:
            sys.stdout.buffer.write(msgspec.json.encode(grant.to_wire()) + b"\n")
        return 0
    width = columns_of(STDOUT)
    for grant in grants:
        print(hang(f"{grant.id}  ", describe(grant), width))
    if not grants:
        print("nothing is allowed for good", file=sys.stderr)
    return 0


def revoke(rules: RuleBook, ids: list[str]) -> int:
    """Take rules back. With an id that is not there nothing is changed."""
    held = {prefix_grant(prefix).id: prefix for prefix in rules.saved()}
    if unknown := [grant_id for grant_id in ids if grant_id not in held]:
        raise SpindleError(f"there is no grant {unknown[0]!r}; `spindle grants` lists them")
    for grant_id in dict.fromkeys(ids):
        rules.revoke(held[grant_id])
        print(f"revoked {grant_id}: sessions that start from now on ask again")
    return 0
