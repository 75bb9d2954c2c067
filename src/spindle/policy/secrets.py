"""What must not be shown: the secrets of this process, in every form they take, and how they are masked.

There are three circles. The agent's *own* keys are masked in everything it records or shows. *Known* values, found in
variables with telling names, are masked in everything but a person's own words. What only has the *shape* of a secret
is masked in what tools bring in. A mask says what stood there: `[secret: GITHUB_TOKEN]`.

Nothing here reads files or variables by itself; whoever makes the registry hands in where the values come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from spindle.protocol.items import encode_payload

if TYPE_CHECKING:
    from spindle.policy.secret_stream import Forms, StreamMasker, TextMasker

MaskMode = Literal["all", "known", "none"]
Named = tuple[str, str]
"""What a secret is called, and its value."""

MIN_LENGTH = 8
"""Shorter values are part of ordinary words too often."""

_TELLING = ("KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTHORIZATION")


MASK = "[secret: "
"""How every mask begins."""


def mark(name: str) -> str:
    return f"{MASK}{name}]"


MARK_PATTERN = r"\[secret: [^\]\n]{1,64}\]"
"""What a mask looks like, for those who must not take it for a value."""


class Secrets:
    """The secrets of one session. Cheap to make; what is costly is done when something must be searched."""

    def __init__(
        self,
        *,
        mask: MaskMode = "all",
        own: Callable[[], Iterable[Named]] = tuple,
        known: Iterable[Named] = (),
        later: Callable[[], Iterable[Named]] = tuple,
    ) -> None:
        """`own` is asked again and again, because keys are renewed; `later` once, when the first tool has run."""
        self._mode: MaskMode = mask
        self._ask_own = own
        self._ask_later: Callable[[], Iterable[Named]] | None = later
        self._own: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self._asked: Iterable[Named] | None = None
        """What the agent's own keys were when they were last looked at."""
        self._masked: set[str] = set()
        """What was masked in the output of tools, by name."""
        self._forms: Forms | None = None
        self._text_forms: Forms | None = None
        self._sorted: dict[str, str] | None = None
        self._escaped: dict[str, list[bytes]] = {}
        if mask != "none":
            for name, value in known:
                self.add(value, name)

    @property
    def mode(self) -> MaskMode:
        return self._mode

    def add(self, value: str, name: str, *, own: bool = False) -> None:
        """From now on `value` is masked. One that was added before keeps its name."""
        value = value.strip()
        if len(value) < MIN_LENGTH or value in self._own:
            return
        if own:
            self._own[value] = self._known.pop(value, name)
        elif value not in self._known:
            self._known[value] = name
        else:
            return
        self._forms = self._text_forms = self._sorted = None

    # ---- what is recorded and shown --------------------------------------------------------------

    def mask_json(self, raw: bytes, *, own_only: bool = False) -> bytes:
        """JSON text without the known values, or without the agent's own ones only."""
        for value, name in self._values(own_only).items():
            for form in self._in_json(value):
                if form in raw:
                    raw = raw.replace(form, mark(name).encode())
        return raw

    def mask_known(self, text: str, *, own_only: bool = False) -> str:
        """The text without the known values."""
        return self.known_masker(own_only=own_only)(text)

    def known_masker(self, *, own_only: bool = False) -> Callable[[str], str]:
        """`mask_known` for several texts of one moment: what there is to look for is asked for once."""
        values = self._values(own_only)

        def mask(text: str) -> str:
            if len(text) < MIN_LENGTH:
                return text
            for value, name in values.items():
                if value in text:
                    text = text.replace(value, mark(name))
            return text

        return mask

    def mask(self, text: str) -> str:
        """What a tool brought in: without known values in any form, and without what looks like a secret."""
        return self.masker()(text)

    def masker(self) -> Callable[[str], str]:
        """`mask` for several texts of one moment: what there is to look for is asked for once."""
        forms = self.forms()

        def mask(text: str) -> str:
            if len(text) < MIN_LENGTH:
                return text  # most that an event says of a command is short
            data = text.encode("utf-8", "surrogatepass")
            masked = forms.mask(data)
            return text if masked is data else masked.decode("utf-8", "surrogatepass")

        return mask

    # ---- what a program prints -------------------------------------------------------------------

    def mask_bytes(self, data: bytes) -> bytes:
        """Like `mask`. The same object comes back when there is nothing to mask."""
        return self.forms().mask(data)

    def output_stream(self) -> StreamMasker:
        """Masks what comes in pieces, whatever a secret is split into."""
        from spindle.policy.secret_stream import StreamMasker  # with the first command

        return StreamMasker(self.forms())

    def text_stream(self) -> TextMasker:
        """The same for the words of a model, which only known values are taken out of."""
        from spindle.policy.secret_stream import TextMasker  # with the first words of the model

        return TextMasker(self._known_forms())

    def forms(self) -> Forms:
        """Everything there is to look for in what tools bring in."""
        if self._ask_later is not None:
            later, self._ask_later = self._ask_later, None
            for name, value in later():
                self.add(value, name, own=True)
        values = self._values(own_only=False)
        if self._forms is None:
            from spindle.policy.secret_stream import Forms  # with the first output

            self._forms = Forms(values, encoded=True, shapes=self._mode == "all", seen=self._masked)
        return self._forms

    def mask_in(self, text: str) -> str | None:
        """A mask of ours in what a model wants to run: it stands for a value that the model has not seen."""
        if MASK not in text:
            return None
        names = {*self._masked, *self._own.values(), *self._known.values()}
        return next((mark(name) for name in sorted(names) if mark(name) in text), None)

    def _known_forms(self) -> Forms:
        values = self._values(own_only=False)
        if self._text_forms is None:
            from spindle.policy.secret_stream import Forms  # with the first words of the model

            self._text_forms = Forms(values, encoded=False, shapes=False)
        return self._text_forms

    def _values(self, own_only: bool) -> dict[str, str]:
        """Value → name. Longer values first: one may be a part of another."""
        if (asked := self._ask_own()) is not self._asked:
            for name, value in asked:
                if value not in self._own:
                    self.add(value, name, own=True)
            # The same list again has nothing new. Of anything else (a generator) that is not known.
            self._asked = asked if isinstance(asked, tuple) else None
        if own_only or not self._known:
            return self._own
        if self._sorted is None:
            both = self._own | self._known
            self._sorted = dict(sorted(both.items(), key=lambda entry: -len(entry[0])))
        return self._sorted

    def _in_json(self, value: str) -> list[bytes]:
        forms = self._escaped.get(value)
        if forms is None:
            once = json_forms(value)
            # A tool's arguments are JSON in a JSON text.
            twice = [form for text in once for form in json_forms(text.decode())]
            forms = self._escaped[value] = list(dict.fromkeys((*once, *twice)))
        return forms


def json_forms(value: str) -> list[bytes]:
    """The inside of the JSON texts that mean `value`."""
    forms = [value.encode("utf-8", "replace"), encode_payload(value)[1:-1]]
    if not value.isascii():
        import json  # few keys have letters that some programs escape

        forms.append(json.dumps(value)[1:-1].encode())
    return forms


def secret_variables(environ: Mapping[str, str], ignored: Iterable[str] = ()) -> list[Named]:
    """Variables whose name and value both look like those of a secret."""
    ignored = frozenset(ignored)
    return [
        (name, value)
        for name, value in environ.items()
        if is_telling(name) and name not in ignored and _looks_secret(value)
    ]


def is_telling(name: str) -> bool:
    """A variable or header of this name is likely to hold a secret."""
    name = name.upper()
    return any(word in name for word in _TELLING)


def address_passwords(environ: Mapping[str, str]) -> list[Named]:
    """Passwords that stand inside the addresses of proxies."""
    found: list[Named] = []
    for name, value in environ.items():
        if name.lower().endswith("_proxy") and "@" in value:
            login = value.partition("://")[2].rpartition("@")[0]
            if password := login.partition(":")[2]:
                found.append((name, password))
    return found


def _looks_secret(value: str) -> bool:
    """Long enough, and neither a place, an address, a number nor a plain word."""
    value = value.strip()
    if len(value) < MIN_LENGTH or "://" in value or value.replace(".", "").replace("-", "").isdigit():
        return False
    if value.startswith(("/", "~/", "./", "../")) and " " not in value and value.count("/") > 1:
        return False
    return len(value) >= 16 or not value.isalpha()
