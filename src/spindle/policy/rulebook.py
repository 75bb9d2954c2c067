"""The rules of one thread: read once, when they are first needed, and changed only by a person's own word.

What is in a rule file and how it is written is `rules`; that module is loaded only when there is a file to read, or a
command to judge.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.errors import RulesError

if TYPE_CHECKING:
    from spindle.policy.rules import RuleSet

Prefix = tuple[str, ...]


class RuleBook:
    """`folders` are (folder, may it allow anything?) from low to high precedence; none = rules are switched off."""

    def __init__(self, home: str, folders: Sequence[tuple[str, bool]] = ()) -> None:
        self._home = home
        self._folders = tuple(folders)
        self._rules: RuleSet | None = None
        self._unsaved: set[Prefix] = set()
        self.warnings: list[str] = []
        """What a person should hear about the files; whoever tells it takes it out."""

    @property
    def is_on(self) -> bool:
        return bool(self._folders)

    @property
    def rules(self) -> RuleSet:
        if self._rules is None:
            from spindle.policy.rules import RuleSet  # with the first rule file

            self._rules, warnings = RuleSet.load(self._folders)
            self.warnings += warnings
        return self._rules

    def allowed_prefixes(self) -> tuple[Prefix, ...]:
        """What may run without the sandbox. Costs a look into the folders as long as there is no rule file."""
        if self._rules is None and not any(_has_rule_file(folder) for folder, _ in self._folders):
            return ()
        return self.rules.allowed_prefixes

    def allow(self, prefix: Sequence[str]) -> None:
        """Save the rule and use it from now on. When it cannot be saved it holds for this session, with a warning."""
        from spindle.policy.rules import append_allowed  # with the first rule file

        rules = self.rules
        try:
            append_allowed(self._home, prefix)
        except (OSError, RulesError) as error:
            reason = getattr(error, "strerror", None) or error
            self.warnings.append(f"the rule could not be saved and holds for this session only: {reason}")
            self._unsaved.add(tuple(prefix))
        self._rules = rules.with_allowed(prefix)

    def saved(self) -> list[Prefix]:
        """The prefixes that were allowed for good, as the user's own file has them now, then those of this session."""
        from spindle.policy.rules import DEFAULT_FILE, read_rules_file  # with the first rule file

        try:
            rules = read_rules_file(f"{self._home}/rules/{DEFAULT_FILE}")
        except RulesError:
            rules = []
        plain = [rule.pattern for rule in rules if rule.decision == "allow" and all(len(p) == 1 for p in rule.pattern)]
        found = [tuple(choices[0] for choices in pattern) for pattern in plain]
        return list(dict.fromkeys((*found, *sorted(self._unsaved))))

    def revoke(self, prefix: Sequence[str]) -> bool:
        """Take the rule out of the file and out of use. False when there is no such rule of the user's."""
        from spindle.policy.rules import remove_allowed  # with the first rule file

        rules = self.rules
        if not remove_allowed(self._home, prefix) and tuple(prefix) not in self._unsaved:
            return False
        self._unsaved.discard(tuple(prefix))
        self._rules = rules.without_allowed(prefix)
        return True


class RestrictingBook(RuleBook):
    """The same rules without those that allow anything: for whoever must not leave the sandbox by a rule either."""

    def __init__(self, book: RuleBook) -> None:
        super().__init__(book._home, book._folders)
        self._book = book

    @property
    def rules(self) -> RuleSet:
        if self._rules is None:
            from spindle.policy.rules import RuleSet  # with the first rule file

            self._rules = RuleSet(self._book.rules.restricting)
        return self._rules

    def allowed_prefixes(self) -> tuple[Prefix, ...]:
        return ()


def _has_rule_file(folder: str) -> bool:
    try:
        return any(name.endswith(".rules") for name in os.listdir(folder))
    except OSError:
        return False
