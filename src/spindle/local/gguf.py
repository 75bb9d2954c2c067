"""What a GGUF file says of itself: which model it holds, how long its window is, and so how much memory it takes.

Only the head of the file is read. It may come from anywhere, so every length in it is checked before it is believed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from spindle.errors import ConfigError

MAGIC = b"GGUF"
BATCH_TOKENS = 512
"""How many tokens of a prompt are worked on at once. More would not be faster on a processor."""

_VERSIONS = (2, 3)
_MOST_KEYS = 10_000
_MOST_TENSORS = 1_000_000
_MOST_DIMENSIONS = 8
_MOST_TEXT_BYTES = 1 << 20
_MOST_LAYERS = 10_000
_MOST_STRINGS = 4_000_000
"""In all arrays together. Vocabularies of today have up to 300,000 words, and as many merges."""
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_NUMBER_BYTES = {kind: struct.calcsize(f"<{code}") for kind, code in _NUMBERS.items()}
_RUNTIME_BYTES = 140_000_000
"""The interpreter, the library and its buffers, as measured."""
_REPACKED = ("Q2_K", "Q4", "Q5_K", "Q6_K", "IQ4")
_REPACKED_SHARE = 0.56
"""Of weights of these kinds llama.cpp keeps a second copy, in an order that the processor likes better."""
_QUANTIZATIONS = """
    F32 F16 Q4_0 Q4_1 - - - Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ2_XXS IQ2_XS
    Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 - - - - - MXFP4
"""
"""By number; `-` for those that are no longer used."""


class GgufFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The few facts that decide how a model can be run here."""

    architecture: str
    title: str = ""
    quantization: str = ""
    context_length: int = 0
    """How many tokens it was trained to read; 0 = it does not say."""
    token_bytes: int = 0
    """Memory for each token of the window."""
    has_template: bool = False
    """It says how messages are put to it."""

    def memory_bytes(self, file_bytes: int, context: int) -> int:
        """How much memory it takes with a window of that many tokens."""
        copied = int(file_bytes * _REPACKED_SHARE) if self.quantization.startswith(_REPACKED) else 0
        return file_bytes + copied + context * self.token_bytes + _RUNTIME_BYTES


def read_gguf(path: str) -> GgufFacts:
    """The facts. Raises ConfigError, in words that begin with the path, if the file is none or is not whole."""
    try:
        with open(path, "rb") as file:
            return _Head(file, os.fstat(file.fileno()).st_size).facts()
    except _Broken as broken:
        raise ConfigError(f"{path} {broken}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


class _Broken(Exception):
    """What is wrong with the file, to be read after its name."""


class _Head:
    """Reads the head of a file from its beginning to its end, once."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._values: dict[str, Any] = {}
        """Numbers, short texts, and arrays of numbers; of other arrays only how long they are."""
        self._strings = 0

    def facts(self) -> GgufFacts:
        if self._file.read(len(MAGIC)) != MAGIC:
            raise _Broken("is not a GGUF file")
        version = self._number(4)
        if version not in _VERSIONS:
            raise _Broken(f"is a GGUF file of version {version}; versions 2 and 3 can be read")
        tensors, keys = self._number(10), self._number(10)
        if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
            raise _Broken("is not a GGUF file: its head makes no sense")
        for _ in range(keys):
            name = self._text()
            self._values[name] = self._value(self._number(4))
        self._check_tensors(tensors)
        return self._made_of_values()

    def _made_of_values(self) -> GgufFacts:
        values = self._values
        architecture = values.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise _Broken("does not say which architecture its model has")
        if values.get("split.count", 0) not in (0, 1):
            raise _Broken("is one of several files of one model; join them first (`llama-gguf-split --merge`)")

        def of_model(name: str) -> Any:
            return values.get(f"{architecture}.{name}")

        title = values.get("general.name")
        return GgufFacts(
            architecture=architecture,
            title=title if isinstance(title, str) else "",
            quantization=_quantization(values.get("general.file_type")),
            context_length=_count(of_model("context_length")),
            token_bytes=_token_bytes(of_model),
            has_template=bool(values.get("tokenizer.chat_template")),
        )

    # ---- values ----------------------------------------------------------------------------------

    def _value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self._number(kind)
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array()
        raise _Broken("is not a GGUF file: its head holds a value of an unknown kind")

    def _array(self) -> Any:
        kind, length = self._number(4), self._number(10)
        if kind in _NUMBERS:
            whole = length * _NUMBER_BYTES[kind]
            self._must_hold(whole)
            if length <= _MOST_LAYERS:
                return struct.unpack(f"<{length}{_NUMBERS[kind]}", self._bytes(whole))
            self._file.seek(whole, os.SEEK_CUR)
        elif kind == _STRING:
            self._must_hold(length * 8)
            self._strings += length
            if self._strings > _MOST_STRINGS:
                raise _Broken("is not a GGUF file: its head makes no sense")
            for _ in range(length):
                self._skip_text()
        else:
            raise _Broken("is not a GGUF file: its head holds arrays within arrays")
        return length

    def _text(self) -> str:
        length = self._number(10)
        self._must_hold(length)
        if length > _MOST_TEXT_BYTES:
            raise _Broken("is not a GGUF file: its head holds a text of more than a megabyte")
        return self._bytes(length).decode("utf-8", "replace")

    def _skip_text(self) -> None:
        length = self._number(10)
        self._must_hold(length)
        self._file.seek(length, os.SEEK_CUR)

    def _number(self, kind: int) -> Any:
        return struct.unpack(f"<{_NUMBERS[kind]}", self._bytes(_NUMBER_BYTES[kind]))[0]

    def _bytes(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise _cut_off()
        return data

    def _must_hold(self, count: int) -> None:
        if count > self._size - self._file.tell():
            raise _cut_off()

    # ---- tensors ---------------------------------------------------------------------------------

    def _check_tensors(self, count: int) -> None:
        """A download that broke off has its whole head: only where the tensors should be tells."""
        last = 0
        for _ in range(count):
            self._skip_text()
            dimensions = self._number(4)
            if dimensions > _MOST_DIMENSIONS:
                raise _Broken("is not a GGUF file: its tensors make no sense")
            self._bytes(8 * dimensions + 4)
            last = max(last, self._number(10))
        if count and self._file.tell() + last >= self._size:
            raise _cut_off()


def _quantization(number: Any) -> str:
    """What a person calls the way in which the weights were made smaller."""
    names = _QUANTIZATIONS.split()
    return names[number].strip("-") if isinstance(number, int) and 0 <= number < len(names) else ""


def _cut_off() -> _Broken:
    return _Broken("is cut off: it ends before the model does")


def _token_bytes(of_model: Callable[[str], Any]) -> int:
    """What one token takes in the memory of attention: keys and values of every layer, two bytes each."""
    layers, heads = _count(of_model("block_count")), of_model("attention.head_count")
    if not 0 < layers <= _MOST_LAYERS:
        return 0
    with_cache = of_model("attention.head_count_kv")
    if with_cache is None:
        with_cache = heads
    total = sum(map(_count, with_cache)) if isinstance(with_cache, tuple) else layers * _count(with_cache)
    most_heads = max(map(_count, heads), default=0) if isinstance(heads, tuple) else _count(heads)
    usual = _count(of_model("embedding_length")) // most_heads if most_heads else 0
    keys = _count(of_model("attention.key_length")) or usual
    values = _count(of_model("attention.value_length")) or usual
    return total * (keys + values) * 2


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0
