"""What is read from the head of a GGUF file, and what is said of files that are none."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.tiny_model import header, keys, text, write_model
from spindle.errors import ConfigError
from spindle.local.gguf import read_gguf


def test_the_facts_of_a_model(tmp_path: Path) -> None:
    facts = read_gguf(str(write_model(tmp_path / "m.gguf")))
    assert (facts.architecture, facts.title, facts.quantization) == ("llama", "Tiny", "F32")
    assert (facts.context_length, facts.has_template) == (32768, True)
    assert facts.token_bytes == 2 * (144 + 144) * 2  # two heads, keys and values of 144, two bytes each


def test_a_window_takes_memory_for_each_token_beside_the_file(tmp_path: Path) -> None:
    facts = read_gguf(str(write_model(tmp_path / "m.gguf")))
    needed = facts.memory_bytes(1_000_000_000, 4096)
    assert facts.memory_bytes(1_000_000_000, 8192) - needed == 4096 * facts.token_bytes
    assert facts.memory_bytes(2_000_000_000, 4096) - needed == 1_000_000_000


def test_some_kinds_of_weights_are_kept_twice(tmp_path: Path) -> None:
    once = read_gguf(str(write_model(tmp_path / "m.gguf"))).memory_bytes(1_000_000_000, 0)
    twice = read_gguf(str(write_model(tmp_path / "m.gguf", general_file_type=(4, 15))))
    assert twice.quantization == "Q4_K_M" and twice.memory_bytes(1_000_000_000, 0) - once == 560_000_000


def test_heads_may_differ_from_layer_to_layer(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", llama_attention_head_count_kv=(9, (5, [2, 0, 1])), llama_block_count=(4, 3))
    assert read_gguf(str(path)).token_bytes == 3 * 288 * 2


def test_lengths_of_keys_and_values_outweigh_the_usual_ones(tmp_path: Path) -> None:
    path = write_model(
        tmp_path / "m.gguf", llama__attention__key_length=(4, 128), llama__attention__value_length=(4, 64)
    )
    assert read_gguf(str(path)).token_bytes == 2 * (128 + 64) * 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not a GGUF file"),
        (b"<!doctype html>", "is not a GGUF file"),
        (b"GGUF", "is cut off"),
        (header({}, version=1), "version 1; versions 2 and 3 can be read"),
        (header({}), "does not say which architecture"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "its head makes no sense"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62), "is cut off"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<I", 77), "a value of an unknown kind"),
        (header({"k": (9, (9, []))}), "arrays within arrays"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1 << 61), "is cut off"),
        (header(keys(), tensors=1) + text("t") + struct.pack("<I", 1 << 31), "its tensors make no sense"),
    ],
)
def test_what_is_no_model_is_named_with_the_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as raised:
        read_gguf(str(path))
    assert str(raised.value).startswith(f"{path} ") and reason in str(raised.value)


def test_a_model_that_was_cut_off_or_split_is_refused(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match="ends before the model does"):
        read_gguf(str(path))
    with pytest.raises(ConfigError, match="one of several files"):
        read_gguf(str(write_model(path, split__count=(4, 2))))
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_gguf(str(tmp_path / "none.gguf"))


@given(data=st.data())
def test_no_file_makes_it_fail_otherwise(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("g") / "m.gguf"
    whole = bytearray(header(keys(tokenizer_ggml_tokens=(9, (8, ["a", "b"])), tokenizer_ggml_token_type=None)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        read_gguf(str(path))
    except ConfigError as error:
        assert str(error).startswith(str(path))
