"""How an event says which of its fields can quote text from outside: of the model, a server, a tool, a repository.

Text from outside may have a secret in it. `core/secrecy.py` masks the fields that are declared here, by where their
text comes from, and no others.
"""

from __future__ import annotations


class Outside:
    """The fields of one class of messages that can quote text from outside; each is named once, by its text's origin.

    What is nested in a field, keys included, counts as part of it. What stays undeclared is our own: numbers, our ids,
    fixed words.
    """

    __slots__ = ("is_settled", "items", "masked", "person", "tools", "words")

    def __init__(
        self,
        *,
        words: tuple[str, ...] = (),
        tools: tuple[str, ...] = (),
        person: tuple[str, ...] = (),
        items: tuple[str, ...] = (),
        masked: tuple[str, ...] = (),
    ) -> None:
        self.words = words
        """What a model or a server says, names of files and folders: known secrets are masked."""
        self.tools = tools
        """What tools read, ran or wrote: what only looks like a secret is masked too."""
        self.person = person
        """What a person typed: only the agent's own keys are masked."""
        self.items = items
        """Items of a thread: `person` where the item is a user's message, else `words`."""
        self.masked = masked
        """Was masked where it came in, by a masker that knows what came before: streams, and what a command printed."""
        self.is_settled = not (words or tools or person or items)
        """Nothing is left to mask."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Every field that is declared."""
        return self.words + self.tools + self.person + self.items + self.masked


NOTHING = Outside()
"""No field of the message can quote text from outside."""
