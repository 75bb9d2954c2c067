"""Rule files: commands that a person has allowed, wants to be asked about, or forbids, by how they begin.

`RuleSet.load` reads the folders of all layers once; `append_allowed` and `remove_allowed` are the only writers, and
touch `rules/default.rules` of the agent's home only. The language itself is read in `rule_syntax.py`.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice, product
from typing import Literal, cast

import msgspec

from spindle.errors import RulesError
from spindle.policy.ownership import foreign_owner
from spindle.policy.rule_syntax import MAX_TEXT, Call, Value, read_calls

Decision = Literal["allow", "prompt", "forbidden"]

STRICTNESS: dict[Decision, int] = {"allow": 0, "prompt": 1, "forbidden": 2}
DEFAULT_FILE = "default.rules"
MAX_FILES = 500
_ARGUMENTS = frozenset(("pattern", "decision", "justification", "match", "not_match"))
_OF_OTHER_CONCERN = frozenset(("host_executable", "network_rule"))
"""Statements of the format that say nothing about which commands may run here."""
_LOCK_PATIENCE_S = 5.0


class RuleMatch(msgspec.Struct, frozen=True):
    """A rule that speaks about a command, with the words of the command that it matched."""

    prefix: tuple[str, ...]
    decision: Decision
    justification: str | None = None


class Rule(msgspec.Struct, frozen=True):
    """`pattern` has the alternatives for each place; most places have one."""

    pattern: tuple[tuple[str, ...], ...]
    decision: Decision = "allow"
    justification: str | None = None

    def match(self, words: Sequence[str]) -> RuleMatch | None:
        if len(words) < len(self.pattern):
            return None
        if any(word not in choices for word, choices in zip(words, self.pattern, strict=False)):
            return None
        return RuleMatch(tuple(words[: len(self.pattern)]), self.decision, self.justification)


def strictest(decisions: Iterable[Decision]) -> Decision | None:
    """forbidden before prompt before allow; None when there is none."""
    return max(decisions, key=STRICTNESS.__getitem__, default=None)


class RuleSet:
    """All rules that count in a session, found by a command's first word. Immutable."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self._by_program: dict[str, list[Rule]] = {}
        for rule in self._rules:
            for program in dict.fromkeys(rule.pattern[0]):
                self._by_program.setdefault(program, []).append(rule)

    @classmethod
    def load(cls, folders: Sequence[tuple[str, bool]]) -> tuple[RuleSet, list[str]]:
        """The rules of all `(folder, may_allow)`, low to high precedence, and warnings for people.

        A folder that may not allow still asks and forbids; so does a file with a mistake in it.
        """
        rules: list[Rule] = []
        warnings: list[str] = []
        for folder, may_allow in folders:
            for path in _rule_files(folder, warnings):
                rules += _read_file(path, may_allow, warnings)
        return cls(rules), warnings

    def match(self, words: Sequence[str]) -> list[RuleMatch]:
        """Every rule that speaks about this command, in the order of the files."""
        if not words:
            return []
        found = (rule.match(words) for rule in self._by_program.get(words[0], ()))
        return [match for match in found if match is not None]

    @cached_property
    def restricting(self) -> tuple[Rule, ...]:
        """The rules that ask or forbid."""
        return tuple(rule for rule in self._rules if rule.decision != "allow")

    def with_allowed(self, prefix: Sequence[str]) -> RuleSet:
        """These rules and one more that allows what begins with `prefix`."""
        rule = _allow_rule(prefix)
        return self if rule in self._rules else RuleSet((*self._rules, rule))

    def without_allowed(self, prefix: Sequence[str]) -> RuleSet:
        """These rules without the one that allows exactly this prefix."""
        rule = _allow_rule(prefix)
        return RuleSet(other for other in self._rules if other != rule)

    @property
    def allowed_prefixes(self) -> tuple[tuple[str, ...], ...]:
        """What is allowed, for people to look at: one entry for each choice of alternatives."""
        found: dict[tuple[str, ...], None] = {}
        for rule in self._rules:
            if rule.decision == "allow":
                found.update(dict.fromkeys(islice(product(*rule.pattern), 1000)))
        return tuple(found)

    def __len__(self) -> int:
        return len(self._rules)


# ---- reading -------------------------------------------------------------------------------------------


def parse_rules(text: str, file_name: str) -> list[Rule]:
    """The rules of a file that is right from end to end; else RulesError with `file:line` and one sentence."""
    rules, errors = read_rules(text, file_name)
    if errors:
        raise errors[0]
    return rules


def read_rules(text: str, file_name: str) -> tuple[list[Rule], list[RulesError]]:
    """What could be read, and every mistake. With a mistake there, only what asks or forbids is to be trusted."""
    reading = read_calls(text.replace("\r\n", "\n"), file_name)
    rules: list[Rule] = []
    errors = list(reading.errors)
    for call in reading.calls:
        rule = _rule_of(call, file_name, errors)
        if rule is not None:
            rules.append(rule)
    return rules, errors


def _rule_of(call: Call, file_name: str, errors: list[RulesError]) -> Rule | None:
    """The rule of a call. One whose pattern and decision are clear is returned even if the rest is wrong."""

    def wrong(sentence: str) -> None:
        errors.append(RulesError(f"{file_name}:{call.line}: {sentence}"))

    if call.name in _OF_OTHER_CONCERN:
        return None
    if call.name != "prefix_rule":
        wrong(f"there is no statement `{call.name}`; rules are written as prefix_rule(...)")
        return None
    for name in call.arguments:
        if name not in _ARGUMENTS:
            wrong(f"prefix_rule has no argument `{name}`")
    pattern = _pattern(call.arguments.get("pattern"))
    if isinstance(pattern, str):
        wrong(pattern)
        return None
    decision = call.arguments.get("decision", "allow")
    if not isinstance(decision, str) or decision not in STRICTNESS:
        wrong('`decision` must be "allow", "prompt" or "forbidden"')
        return None
    justification = call.arguments.get("justification")
    if justification is not None and (not isinstance(justification, str) or not justification.strip()):
        wrong("`justification` must be a string that says something")
        justification = None
    rule = Rule(pattern, cast(Decision, decision), cast("str | None", justification))
    for name, should_match in (("match", True), ("not_match", False)):
        for sentence in _example_mistakes(rule, name, call.arguments.get(name, []), should_match):
            wrong(sentence)
    return rule


def _pattern(value: Value | None) -> tuple[tuple[str, ...], ...] | str:
    """The alternatives place by place, or what is wrong with it."""
    if not isinstance(value, list):
        return "`pattern` must be a list of strings"
    if not value:
        return "`pattern` must not be empty"
    places: list[tuple[str, ...]] = []
    for place in value:
        choices = [place] if isinstance(place, str) else place
        if not choices:
            return "a list of alternatives in `pattern` must not be empty"
        if not all(isinstance(choice, str) for choice in choices):
            return "`pattern` holds strings and lists of strings, nothing deeper"
        places.append(tuple(cast("list[str]", choices)))
    return tuple(places)


def _example_mistakes(rule: Rule, name: str, examples: Value, should_match: bool) -> list[str]:
    if not isinstance(examples, list):
        return [f"`{name}` must be a list of examples"]
    mistakes: list[str] = []
    for example in examples:
        words = _example_words(example)
        if words is None:
            mistakes.append(f"an example in `{name}` is neither a command line nor a list of its words")
        elif (rule.match(words) is not None) != should_match:
            said = "does not match" if should_match else "matches"
            mistakes.append(f"the example `{' '.join(words)}` in `{name}` {said} the pattern")
    return mistakes


def _example_words(example: Value) -> list[str] | None:
    if isinstance(example, list):
        return cast("list[str]", example) if example and all(isinstance(word, str) for word in example) else None
    import shlex  # only for examples that are written as a line

    try:
        return shlex.split(example, comments=True) or None
    except ValueError:
        return None


def _rule_files(folder: str, warnings: list[str]) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".rules"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        warnings.append(f"{folder}: the rules in it cannot be read: {_reason(error)}")
        return []
    if len(names) > MAX_FILES:
        warnings.append(f"{folder}: only the first {MAX_FILES} rule files are read")
    return [f"{folder}/{name}" for name in names[:MAX_FILES]]


def _read_file(path: str, may_allow: bool, warnings: list[str]) -> list[Rule]:
    try:
        text = _text_of(path)
    except RulesError as error:
        warnings.append(f"{error}; none of its rules count")
        return []
    rules, errors = read_rules(text, path)
    if not may_allow:
        rules = [_attributed(rule) for rule in rules]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        warnings.append(f"{errors[0]}{more}; until that is mended, the rules of this file allow nothing")
    elif os.path.islink(path) or os.path.islink(os.path.dirname(path)):
        if any(rule.decision == "allow" for rule in rules):
            warnings.append(f"{path}: is reached through a link, so its rules allow nothing")
        may_allow = False
    if may_allow and not errors:
        return rules
    return [rule for rule in rules if rule.decision != "allow"]


def _attributed(rule: Rule) -> Rule:
    """What a project that is not trusted gives as a reason is not said in our name."""
    if rule.justification is None:
        return rule
    return msgspec.structs.replace(
        rule, justification=f"a rule of the project, which you do not trust: {rule.justification}"
    )


def _text_of(path: str) -> str:
    """The text of a regular file that is not too large; RulesError otherwise. A pipe is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise RulesError(f"{path}: is not a file")
            if (uid := foreign_owner(os.path.realpath(path), status)) is not None:
                raise RulesError(f"{path}: belongs to another user ({uid})")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_TEXT + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise RulesError(f"{path}: cannot be read: {_reason(error)}") from None
    if len(data) > MAX_TEXT:
        raise RulesError(f"{path}: is longer than {MAX_TEXT // 1024} KB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RulesError(f"{path}:{line}: is not UTF-8 text") from None


def read_rules_file(path: str) -> list[Rule]:
    """The rules of one file that a person named; RulesError if anything is wrong with it."""
    return parse_rules(_text_of(path), path)


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# ---- writing -------------------------------------------------------------------------------------------


def append_allowed(home: str, prefix: Sequence[str]) -> str:
    """Allow what begins with `prefix` from now on: one line in the user's own rules. Returns the file's path."""
    rule = _allow_rule(prefix)

    def add(text: str, path: str) -> str | None:
        if rule in (known for _, known in _allow_calls(text, path)):
            return None
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}{allow_line(prefix)}\n"

    path = f"{home}/rules/{DEFAULT_FILE}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    except OSError as error:
        raise RulesError(f"{path}: cannot be written: {_reason(error)}") from None
    _rewrite(path, add)
    return path


def remove_allowed(home: str, prefix: Sequence[str]) -> bool:
    """Take back what `append_allowed` wrote; False if there is no such rule."""
    rule = _allow_rule(prefix)

    def take_out(text: str, path: str) -> str | None:
        spans = [(call.start, call.end) for call, known in _allow_calls(text, path) if known == rule]
        if not spans:
            return None
        for start, end in reversed(spans):
            # The line end goes too, unless something else stands on the line.
            before = text.rfind("\n", 0, start) + 1
            if text[end : end + 1] == "\n" and not text[before:start].strip():
                end += 1
            text = text[:start] + text[end:]
        return text

    path = f"{home}/rules/{DEFAULT_FILE}"
    return os.path.isdir(os.path.dirname(path)) and _rewrite(path, take_out)


def allow_line(prefix: Sequence[str]) -> str:
    """The rule as it is written down and shown."""
    return f'prefix_rule(pattern=[{", ".join(map(_quoted, prefix))}], decision="allow")'


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + "".join(c if c.isprintable() or c == " " else _escaped(c) for c in escaped) + '"'


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"


def _allow_rule(prefix: Sequence[str]) -> Rule:
    if not prefix:
        raise RulesError("an empty prefix would allow everything")
    if any(0xD800 <= ord(character) <= 0xDFFF for word in prefix for character in word):
        raise RulesError("a word that is not text cannot stand in a rule")
    return Rule(tuple((word,) for word in prefix))


def _allow_calls(text: str, path: str) -> list[tuple[Call, Rule]]:
    calls = [(call, _rule_of(call, path, [])) for call in read_calls(text, path).calls]
    return [(call, rule) for call, rule in calls if rule is not None and rule.decision == "allow"]


def _rewrite(path: str, change: Callable[[str, str], str | None]) -> bool:
    """Replace the file by what `change` makes of its text, whole or not at all; False when it may stay as it is.

    The folder is locked meanwhile, because the file itself is another one afterwards.
    """
    import secrets  # only when a person has given an answer worth writing down

    folder, name = os.path.split(path)
    temporary = f"{folder}/.{name}.{secrets.token_hex(8)}"
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock(lock, path)
            if os.path.islink(path):
                raise RulesError(f"{path}: is a link, so it is not written to; add the rule by hand")
            text = _text_of(path) if os.path.lexists(path) else ""
            changed = change(text, path)
            if changed is None:
                return False
            try:
                _write_new(temporary, changed)
                os.rename(temporary, path)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
            return True
        finally:
            os.close(lock)
    except OSError as error:
        raise RulesError(f"{path}: cannot be written: {_reason(error)}") from None


def _write_new(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8", newline="") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def _lock(descriptor: int, path: str) -> None:
    """Another process holds it for a moment at most; one that hangs is not waited for."""
    import fcntl  # only here

    give_up = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        if time.monotonic() > give_up:
            raise RulesError(f"{path}: another process is writing it")
        time.sleep(0.02)
