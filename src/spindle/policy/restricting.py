"""Rules that ask or forbid, compared with what a command does rather than with how it is spelt.

`git -C . tag`, `git --no-pager tag` and `/usr/bin/git tag` all fall under a rule for `git tag`; `rm -f -r x` under one
for `rm -rf`. Where the script does not tell what a word will be, a rule that may be meant asks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from spindle.policy.coverage import STATE_CHANGERS, is_known
from spindle.policy.destroyers import may_be
from spindle.policy.launchers import starts_programs
from spindle.policy.rules import STRICTNESS, Rule, RuleMatch, RuleSet
from spindle.policy.script_tree import UNKNOWN
from spindle.policy.verdicts import Verdict
from spindle.policy.within import Within, look_within
from spindle.protocol.quote import shell_join

_SYNONYMS = {"f": "--force", "r": "--recursive", "R": "--recursive", "--force": "f", "--recursive": "r"}
_GLOB = re.compile(r"[*?\[]")
_MAX_WORDS = 400

Fits = Callable[[str, str], bool]


def restricted(argv: Sequence[str], rules: RuleSet | None) -> list[Verdict]:
    """What rules ask about or forbid in all that this command runs, as far as it can be read."""
    restricting = rules.restricting if rules is not None else ()
    if not restricting:
        return []
    within = look_within(argv)
    if within is None:
        return [Verdict(part=argv, decision="prompt", reason="the command is too long to be compared with the rules")]
    found = [_verdict(words, matches) for words in within.commands if (matches := _all(restricting, words, _is_same))]
    return [*found, *_possible(within, restricting)]


def _possible(within: Within, rules: Sequence[Rule]) -> Iterator[Verdict]:
    """Where a rule may be meant, and only running it would tell: that is asked about."""
    if within.unread:
        yield Verdict(
            part=[within.unread],
            decision="prompt",
            reason=f"{within.unread} runs a text that does not stand in the command, and there are rules against some",
        )
    for words in within.maybe:
        if matches := _all(rules, words, _is_same):
            shown = shell_join(max(matches, key=lambda match: len(match.prefix)).prefix)
            yield Verdict(part=words, decision="prompt", reason=f"it may start `{shown}`, which a rule speaks about")
    for words in within.unclear:
        if words == [UNKNOWN]:
            yield Verdict(
                part=words,
                decision="prompt",
                reason="it does not say what it runs, and a rule speaks about some commands",
            )
        elif matches := _all(rules, words, _may_be_same):
            shown = shell_join(max(matches, key=lambda match: len(match.prefix)).prefix)
            yield Verdict(
                part=words,
                decision="prompt",
                reason=f"it does not say which program it runs, and a rule speaks about `{shown}`",
            )
    for words in within.commands:
        name = os.path.basename(words[0])
        if name in STATE_CHANGERS or name in ("[", "[[") or starts_programs(words) or is_known(words):
            continue
        if words in within.files or name in within.functions:
            continue  # what a script of the project does with its arguments is its own affair
        # A program that nobody knows may be one that starts others.
        for at in range(1, min(len(words), _MAX_WORDS)):
            if not words[at].startswith("-") and (matches := _all(rules, words[at:], _is_same)):
                shown = shell_join(max(matches, key=lambda match: len(match.prefix)).prefix)
                yield Verdict(
                    part=words, decision="prompt", reason=f"{name} may start `{shown}`, which a rule speaks about"
                )
                break


def _all(rules: Sequence[Rule], words: Sequence[str], fits: Fits) -> list[RuleMatch]:
    return [match for rule in rules if (match := _match(rule, list(words[:_MAX_WORDS]), fits)) is not None]


def _verdict(words: Sequence[str], matches: Sequence[RuleMatch]) -> Verdict:
    strictest = max(matches, key=lambda match: (STRICTNESS[match.decision], len(match.prefix)))
    return Verdict.of_rule(words, strictest)


def _match(rule: Rule, words: list[str], fits: Fits) -> RuleMatch | None:
    """Does a rule that asks or forbids speak about this command, options in whatever order and spelling?"""
    name = os.path.basename(words[0])
    programs = (one for one in rule.pattern[0] if fits(words[0], one) or fits(name, os.path.basename(one)))
    program = next(programs, None)
    if program is None:
        return None
    said = [program]
    places = {1}
    for choices in rule.pattern[1:]:
        if all(len(choice) > 1 and choice[0] == "-" for choice in choices):
            chosen = next((choice for choice in choices if _has_option(words[1:], choice)), None)
        else:
            chosen = next((choice for choice in choices if _behind(words, places, choice, fits)), None)
            if chosen is not None:
                places = _behind(words, places, chosen, fits)
        if chosen is None:
            return None
        said.append(chosen)
    return RuleMatch(tuple(said), rule.decision, rule.justification)


def _behind(words: list[str], places: set[int], wanted: str, fits: Fits) -> set[int]:
    """Where the command may go on behind this word, if it is the next one that is no option, or no option's value."""
    found: set[int] = set()
    waiting, seen = list(places), set[int]()
    while waiting:
        at = waiting.pop()
        if at >= len(words) or at in seen:
            continue
        seen.add(at)
        word = words[at]
        if fits(word, wanted):
            found.add(at + 1)
        if word.startswith(("-", "+")):
            waiting.append(at + 1)
            if "=" not in word and word != "--":
                waiting.append(at + 2)
    return found


def _has_option(words: Sequence[str], wanted: str) -> bool:
    """`-rf` is there as `-fr`, `-r -f` or `-rvf`; `--force` also shortened, or as `-f`."""
    if wanted.startswith("--"):
        short = _SYNONYMS.get(wanted)
        return any(_is_long(word, wanted) for word in words) or (short is not None and _has_letter(words, short))
    return wanted in words or (
        re.fullmatch(r"-[A-Za-z]+", wanted) is not None
        and all(
            _has_letter(words, letter) or any(_is_long(word, _SYNONYMS.get(letter, "")) for word in words)
            for letter in wanted[1:]
        )
    )


def _is_long(word: str, wanted: str) -> bool:
    name = word.split("=", 1)[0]
    return len(name) > 3 and name.startswith("--") and bool(wanted) and wanted.startswith(name)


def _has_letter(words: Sequence[str], letter: str) -> bool:
    return any(re.fullmatch(r"-[A-Za-z]*", word) is not None and letter in word for word in words)


def _is_same(word: str, wanted: str) -> bool:
    return word == wanted


def _may_be_same(word: str, wanted: str) -> bool:
    """Could the word become the wanted one: by what is not known of it, or as a pattern of file names?"""
    if word == wanted:
        return True
    is_open = UNKNOWN in word or _GLOB.search(word) is not None
    return is_open and may_be(os.path.basename(word), os.path.basename(wanted))
