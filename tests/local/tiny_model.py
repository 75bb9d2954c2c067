"""A model of two megabytes that llama.cpp runs: its words are the bytes, and it knows one thing, what follows what.

Its attention is empty, and each word has a direction of its own, so what comes next depends on the last word alone:
`follows` says for a character which ones it likes behind it, best first. A grammar leaves it fewer to choose from.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WIDTH, INNER = 288, 32
_NUMBERS = {4: "I", 5: "i", 6: "f", 7: "?", 10: "Q"}
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_words() -> list[str]:
    """The 256 bytes as GPT-2's tokenizer writes them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


WORDS = [*byte_words(), "<|im_start|>", "<|im_end|>"]
END = 257


def keys(**changed: Any) -> dict[str, tuple[int, Any]]:
    """The head of the file; `changed` by name, with `_` for `.`, None takes one out."""
    found: dict[str, tuple[int, Any]] = {
        "general.architecture": (8, "llama"),
        "general.name": (8, "Tiny"),
        "general.file_type": (4, 0),
        "llama.context_length": (4, 32768),
        "llama.embedding_length": (4, WIDTH),
        "llama.block_count": (4, 1),
        "llama.feed_forward_length": (4, INNER),
        "llama.attention.head_count": (4, 2),
        "llama.attention.head_count_kv": (4, 2),
        "llama.attention.layer_norm_rms_epsilon": (6, 1e-5),
        "llama.rope.dimension_count": (4, WIDTH // 2),
        "llama.vocab_size": (4, len(WORDS)),
        "tokenizer.ggml.model": (8, "gpt2"),
        "tokenizer.ggml.pre": (8, "default"),
        "tokenizer.ggml.tokens": (9, (8, WORDS)),
        "tokenizer.ggml.token_type": (9, (5, [1] * 256 + [3, 3])),
        "tokenizer.ggml.merges": (9, (8, ["t h"])),
        "tokenizer.ggml.eos_token_id": (4, END),
        "tokenizer.ggml.bos_token_id": (4, 256),
        "tokenizer.ggml.add_bos_token": (7, False),
        "tokenizer.chat_template": (8, TEMPLATE),
    }
    for name, value in changed.items():
        key = next((known for known in found if known.replace(".", "_") == name), name.replace("__", "."))
        if value is None:
            del found[key]
        else:
            found[key] = value
    return found


ANSWERS = {'"': "ha", "h": "i", "i": "!", "!": '"'}
"""Held to the form of answers, it says `hi!`."""
LISTS = {'"': "lne", "l": "s", "s": '"'}
"""Held to the form of answers, it runs `ls`, again and again."""


def write_model(path: Path, follows: Mapping[str, str] = ANSWERS, **changed: Any) -> Path:
    """A whole file."""
    output = array("f", bytes(4 * WIDTH * len(WORDS)))
    for char, liked in follows.items():
        for place, other in enumerate(liked):
            output[ord(other) * WIDTH + ord(char)] = 9.0 - place
    embedding = array("f", bytes(4 * WIDTH * len(WORDS)))
    for word in range(len(WORDS)):
        embedding[word * WIDTH + word] = 1.0
    ones = array("f", [1.0] * WIDTH).tobytes()
    tensors: dict[str, tuple[tuple[int, ...], bytes]] = {
        "token_embd.weight": ((WIDTH, len(WORDS)), embedding.tobytes()),
        "output_norm.weight": ((WIDTH,), ones),
        "output.weight": ((WIDTH, len(WORDS)), output.tobytes()),
        "blk.0.attn_norm.weight": ((WIDTH,), ones),
        "blk.0.ffn_norm.weight": ((WIDTH,), ones),
        **{f"blk.0.attn_{part}.weight": ((WIDTH, WIDTH), bytes(4 * WIDTH**2)) for part in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{part}.weight": ((WIDTH, INNER), bytes(4 * WIDTH * INNER)) for part in ("gate", "up")},
        "blk.0.ffn_down.weight": ((INNER, WIDTH), bytes(4 * WIDTH * INNER)),
    }
    infos, data = b"", b""
    for name, (shape, values) in tensors.items():
        data += b"\0" * (-len(data) % 32)
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += values
    head = header(keys(**changed), len(tensors)) + infos
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path


def header(values: Mapping[str, tuple[int, Any]], tensors: int = 0, version: int = 3) -> bytes:
    entries = b"".join(
        text(name) + struct.pack("<I", kind) + encoded(kind, value) for name, (kind, value) in values.items()
    )
    return b"GGUF" + struct.pack("<IQQ", version, tensors, len(values)) + entries


def encoded(kind: int, value: Any) -> bytes:
    if kind == 8:
        return text(value)
    if kind == 9:
        inner, values = value
        return struct.pack("<IQ", inner, len(values)) + b"".join(encoded(inner, each) for each in values)
    return struct.pack(f"<{_NUMBERS[kind]}", value)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data
