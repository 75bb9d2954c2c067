"""Finding secrets in bytes that are at hand, or that come in pieces. Which secrets there are is `secrets`' business."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Generic, TypeVar

from spindle.policy.secret_codes import Coded
from spindle.policy.secret_shapes import HELD_MAX, MARKS, Span, find_shapes, opens_at
from spindle.policy.secrets import json_forms, mark

PREFIX = 4
"""How many first characters of a known value are looked for. Where a piece ends in fewer of them, these are held
back."""

CONTEXT = 64
"""Bytes already given out in which a secret may have begun; the rest of it can still be masked."""

MIN_CUT_OFF = 8
"""The shortest part of a known value that is masked where the output ends inside of the value."""

MIN_ENCODED = 12
"""Shorter values are not looked for in other encodings: too little of them would be left to recognise."""

SMALL = 4096
"""Pieces below this size are looked at by one expression first; for larger ones it would be the slower way."""

_CLEAN_BYTES = 256
_MOST_CLEAN = 256
_WRAPS = b"\r\n"
_GAPS = b"\r\n\0"
_CODE = (
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]{0,200}\x1b\\"
    rb"|\x1b[ -/][0-~]|\x1b[0-OQ-WYZ\\`-~]"
)
"""Colours, titles and links, and what `tput sgr0` ends them with."""
_STRUCK = rb"[^\n]\x08"
"""A letter that the next one is printed over: so manual pages write bold and underlined."""


class Form:
    """One way in which a value may be written."""

    __slots__ = ("data", "is_wrapped", "name", "prefix")

    def __init__(self, data: bytes, name: str, *, is_wrapped: bool = False) -> None:
        self.data = data
        self.name = name
        self.is_wrapped = is_wrapped
        """Programs break this form into lines."""
        self.prefix = data[:PREFIX]


Text = TypeVar("Text", str, bytes)


class _Beginnings(Generic[Text]):
    """The first few characters of values: fewer than `PREFIX`, which is what is looked for anyway."""

    __slots__ = ("_begun", "_ends")

    def __init__(self, values: Iterable[Text]) -> None:
        begun = {value[:length] for value in values for length in range(1, PREFIX)}
        # Every address begins its encoded letters with this one: it tells nothing, and holding it back would take the
        # last character off each "99%" that a program shows while it works.
        begun.discard(b"%")  # pyright: ignore[reportArgumentType]
        self._begun = frozenset(begun)
        self._ends = frozenset(one[-1:] for one in begun)

    def at_end_of(self, text: Text) -> int:
        """How many of them stand at the end of `text`. Most texts end in none, which one look tells."""
        if text[-1:] not in self._ends:
            return 0
        for length in range(min(PREFIX - 1, len(text)), 0, -1):
            if text[-length:] in self._begun:
                return length
        return 0


class Forms:
    """Everything there is to look for. Made anew when a value is added."""

    def __init__(self, values: Mapping[str, str], *, encoded: bool, shapes: bool, seen: set[str] | None = None) -> None:
        self.shapes = shapes
        self.values = values
        self._seen = set[str]() if seen is None else seen
        """The names of all that was masked."""
        self._plain = {value.encode("utf-8", "replace"): name for value, name in values.items()} if encoded else {}
        self._coded = Coded(self._plain)
        found: dict[bytes, Form] = {}
        for value, name in values.items():
            for form in _forms(value, name) if encoded else [Form(value.encode("utf-8", "replace"), name)]:
                found.setdefault(form.data, form)
        self.forms = sorted(found.values(), key=lambda form: -len(form.data))
        self._wrapped = any(form.is_wrapped for form in self.forms)
        self._beginnings: _Beginnings[bytes] | None = None
        self._text_beginnings: _Beginnings[str] | None = None
        self._begins: Callable[[str], object] | None = None
        self._marks: Callable[[bytes], object] | None = None
        self._clean: set[bytes] = set()
        """Short texts without any secret: each event names the same folder, shell and command again."""

    def may_begin_in(self, text: str) -> bool:
        """Whether the first characters of some value are in `text`."""
        if self._begins is None:
            prefixes = {value[:PREFIX] for value in self.values}
            self._begins = re.compile("|".join(map(re.escape, sorted(prefixes)))).search
        return self._begins(text) is not None

    def text_begun(self, text: str) -> int:
        """How many characters at the end of `text` may be the first of a value; fewer than `PREFIX`."""
        if self._text_beginnings is None:
            self._text_beginnings = _Beginnings(self.values)
        return self._text_beginnings.at_end_of(text)

    def begun(self, data: bytes) -> int:
        """The same for bytes."""
        if self._beginnings is None:
            # Not of encodings: taken together, they begin with every letter and digit there is.
            self._beginnings = _Beginnings(form.data for form in self.forms if not form.is_wrapped)
        return self._beginnings.at_end_of(data)

    def is_quiet(self, data: bytes) -> bool:
        """Nothing in `data` is, or begins, what is looked for. Quick for the small pieces that programs print."""
        if self._marks is None:
            marks = {form.prefix.lower() for form in self.forms} | {mark[:PREFIX] for mark in MARKS if self.shapes}
            by_first: dict[bytes, list[bytes]] = {}
            for mark in sorted(marks):
                by_first.setdefault(re.escape(mark[:1]), []).append(re.escape(mark[1:]))
            pattern = b"|".join(first + b"(?:" + b"|".join(rest) + b")" for first, rest in by_first.items())
            self._marks = re.compile(pattern or rb"(?!)").search
        if self._plain:
            if b"\x1b" in data or b"\0" in data or b"\x08" in data or _is_dump(data) or self._coded.are_in(data):
                return False
            data = data.translate(None, _GAPS)
        return self._marks(data.lower()) is None

    def mask(self, data: bytes) -> bytes:
        is_short = len(data) <= _CLEAN_BYTES
        if is_short and data in self._clean:
            return data
        spans = self.spans(data)
        if spans:
            return replace_spans(data, spans)
        if is_short:
            if len(self._clean) >= _MOST_CLEAN:
                self._clean.clear()
            self._clean.add(data)
        return data

    def mask_from(self, data: bytes, start: int, *, is_cut: bool = False) -> bytes:
        """What stands behind `start`, masked; what stands before it was given out. `is_cut`: more came, and is lost."""
        end = max(start, self.opens_at(data)) if is_cut else len(data)
        spans = [
            (max(begin, start), stop, name) for begin, stop, name in self.spans(data) if stop > start and begin < end
        ]
        if end < len(data) and (not spans or spans[-1][1] <= end):
            spans.append((end, len(data), "cut off here"))
        return replace_spans(data, spans, start) if spans or start else data

    def spans(self, data: bytes) -> list[Span]:
        """Where secrets stand, in order, none overlapping another."""
        found: list[Span] = []
        squeezed = data.translate(None, _WRAPS) if self._wrapped and b"\n" in data else data
        for form in self.forms:
            if form.is_wrapped and squeezed is not data:
                if form.data in squeezed:
                    found += ((m.start(), m.end(), form.name) for m in _wrapped_pattern(form.data).finditer(data))
                continue
            at = data.find(form.data)
            while at >= 0:
                found.append((at, at + len(form.data), form.name))
                at = data.find(form.data, at + len(form.data))
        if self._plain:
            found += self._disguised(data)
        known = len(found)
        if self.shapes:
            found += find_shapes(data)
        if not found:
            return found
        self._seen.update(name for _, _, name in found)
        return _in_order(found, known)

    def _disguised(self, data: bytes) -> Iterable[Span]:
        """Values with colours, line ends or zeros between their letters, and in dumps of bytes."""
        bare = re.sub(_CODE, b"", data) if b"\x1b" in data else data
        bare = re.sub(_STRUCK, b"", bare) if b"\x08" in bare else bare
        bare = bare.translate(None, _GAPS)
        if len(bare) != len(data):
            for value, name in self._plain.items():
                if value in bare:
                    letters = [re.escape(value[at : at + 1]) for at in range(len(value))]
                    gap = rb"(?:" + _CODE + rb"|[\r\n\0]|" + _STRUCK + rb")*"
                    found = re.finditer(rb"(?:" + _STRUCK + rb")?" + gap.join(letters), data)
                    yield from ((m.start(), m.end(), name) for m in found)
        if _is_dump(data):
            from spindle.policy.secret_dumps import dump_spans  # few outputs are dumps

            yield from dump_spans(data, self._plain)
        yield from self._coded.spans(data)

    def opens_at(self, data: bytes) -> int:
        """Where a secret may begin that the end of `data` cuts off; the length of `data` if there is none."""
        return min(opens_at(data) if self.shapes else len(data), self._known_open(data, PREFIX)[0])

    def holds_from(self, data: bytes) -> int:
        """The same while more is to come: then the first few characters of a known value count too."""
        return min(self.opens_at(data), len(data) - self.begun(data))

    def cut_off(self, data: bytes) -> tuple[int, str]:
        """Where a known value begins of which `data` holds a good part, but not the end."""
        return self._known_open(data, MIN_CUT_OFF)

    def _known_open(self, data: bytes, length: int) -> tuple[int, str]:
        at, name = len(data), ""
        for form in self.forms:
            # A whole value is found by `spans`; here one byte of it is missing at least. Line breaks make it longer.
            window = data[-2 * len(form.data) :] if form.is_wrapped else data[1 - len(form.data) :]
            start = window.find(form.prefix)
            while start >= 0:
                rest = window[start:]
                if len(rest) < length:
                    break
                if form.data.startswith(rest.translate(None, _WRAPS) if form.is_wrapped else rest):
                    if len(data) - len(rest) < at:
                        at, name = len(data) - len(rest), form.name
                    break
                start = window.find(form.prefix, start + 1)
        return at, name


class StreamMasker:
    """Masks bytes that come in pieces. Ordinary output goes through at once; only what may be the beginning of a
    secret is held back until more comes, or until the end."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._context = b""
        self._held = b""

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def restart(self, context: bytes) -> None:
        """Go on behind `context`, which was given out by somebody else."""
        self._context, self._held = context, b""

    def feed(self, data: bytes) -> bytes:
        """What can be given out now."""
        # The invariant of both ways below: nothing is given out that a secret could still begin in, and what was given
        # out is never changed. `_context` is only looked at; a secret that began in it is masked from `given` onwards.
        text = self._context + self._held + data
        given = len(self._context)
        # Held back, but with less than a prefix: then nothing is known to have begun, and one look at the small piece
        # tells whether anything does now.
        if len(self._held) < PREFIX and len(text) < SMALL and self._forms.is_quiet(text):
            end = max(given, len(text) - self._forms.begun(text))
            self._context, self._held = text[max(0, end - CONTEXT) : end], text[end:]
            return text[given:end]
        end = max(given, self._forms.holds_from(text))
        if len(text) - end > HELD_MAX:
            end = len(text)  # a program that only begins secrets must not make us hold its output for ever
        return self._give(text, given, end)

    def finish(self) -> bytes:
        """The rest. Nothing follows it; a known value that was cut off there is masked if much of it can be seen."""
        text, given = self._context + self._held, len(self._context)
        # Not by the few characters that are held while more may come: an output that ends in "gh" is no secret.
        start, name = self._forms.cut_off(text)
        if start < len(text):
            return self._give(text, given, max(given, start)) + mark(name).encode()
        return self._give(text, given, len(text))

    def _give(self, text: bytes, given: int, end: int) -> bytes:
        spans = [(max(start, given), stop, name) for start, stop, name in self._forms.spans(text) if stop > given]
        if any(start < end < stop for start, stop, _ in spans):
            # A whole secret reaches into what is held back: that goes with it.
            end = min(start for start, stop, _ in spans if start < end < stop)
        out = replace_spans(text[:end], [span for span in spans if span[1] <= end], given)
        self._context, self._held = text[max(0, end - CONTEXT) : end], text[end:]
        return out


class TextMasker:
    """Masks the words of a model as they come. Almost every piece goes through after one look at it."""

    def __init__(self, forms: Forms) -> None:
        self._stream = StreamMasker(forms) if forms.forms else None
        self._forms = forms
        self._held = ""
        """A few characters that may be the first of a value; longer beginnings are held by the stream."""
        self._is_alert = False

    def feed(self, delta: str) -> str:
        stream = self._stream
        if stream is None:
            return delta
        if not self._is_alert:
            text = self._held + delta if self._held else delta
            if not self._forms.may_begin_in(text):
                if count := self._forms.text_begun(text):
                    self._held = text[-count:]
                    return text[:-count]
                self._held = ""
                return text
            # What went through before held nothing that begins a value, so the stream needs no context of it.
            delta, self._held = text, ""
            stream.restart(b"")
        out = stream.feed(delta.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        self._is_alert = stream.is_holding
        return out

    def finish(self) -> str:
        """What was held back; the item is complete."""
        held, self._held = self._held, ""
        if self._stream is None or not self._is_alert:
            return held
        self._is_alert = False
        return self._stream.finish().decode("utf-8", "surrogatepass")


def _is_dump(data: bytes) -> bool:
    first, later = _dump_lines()
    return first(data) is not None or later(data) is not None


@cache
def _dump_lines() -> tuple[Callable[[bytes], object], Callable[[bytes], object]]:
    """What finds a line of a dump at the beginning, and after a line end. Made with the first output, not before."""
    line = rb" ?(?:[0-9a-fA-F]{6,16}:?[ \t]+\S|(?:[0-9a-fA-F]{2} ){3})"
    return re.compile(line).match, re.compile(rb"\n" + line).search


def replace_spans(data: bytes, spans: list[Span], start: int = 0) -> bytes:
    out: list[bytes] = []
    for begin, end, name in spans:
        out += (data[start:begin], mark(name).encode())
        start = end
    out.append(data[start:])
    return b"".join(out)


def _in_order(found: list[Span], known: int) -> list[Span]:
    """Spans that overlap become one; it is named after a value that is known, if one is among them."""
    ranked = sorted((start, index >= known, -end, index) for index, (start, end, _) in enumerate(found))
    merged: list[Span] = []
    names_known = False
    for start, is_shape, minus_end, index in ranked:
        end, name = -minus_end, found[index][2]
        if merged and start < merged[-1][1]:
            last = merged[-1]
            better = names_known or is_shape
            merged[-1] = (last[0], max(last[1], end), last[2] if better else name)
            names_known = names_known or not is_shape
        else:
            merged.append((start, end, name))
            names_known = not is_shape
    return merged


def _forms(value: str, name: str) -> list[Form]:
    """The value itself, and how JSON, an address, and the usual encodings write it."""
    from urllib.parse import quote  # with the first output

    plain = value.encode("utf-8", "replace")
    forms = [Form(form, name) for form in json_forms(value)]
    quoted = quote(plain, safe="").encode()
    forms += (Form(quoted, name), Form(quote(plain).encode(), name))
    every = "".join(f"%{byte:02X}" for byte in plain).encode()
    forms += (Form(every, name), Form(every.lower(), name))
    if len(plain) < MIN_ENCODED:
        return forms
    forms += (
        Form(plain[::-1], name),
        Form(plain.hex().encode(), name, is_wrapped=True),
        Form(plain.hex().upper().encode(), name, is_wrapped=True),
    )
    for before in range(3):
        # The characters at both ends also hold bits of what stands around the value.
        encoded = binascii.b2a_base64(bytes(before) + plain, newline=False)
        core = encoded[(0, 2, 3)[before] : (before + len(plain)) * 8 // 6]
        forms.append(Form(core, name, is_wrapped=True))
        forms.append(Form(core.translate(bytes.maketrans(b"+/", b"-_")), name, is_wrapped=True))
    return forms


def _wrapped_pattern(data: bytes) -> re.Pattern[bytes]:
    return re.compile(b"(?:\r?\n)?".join(re.escape(data[i : i + 1]) for i in range(len(data))))
