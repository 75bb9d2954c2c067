"""What servers say of the models they have, each in its own words."""

from __future__ import annotations

from typing import Any

import pytest

from spindle.model.server_models import MOST_MODELS, ServerModel, read_list, read_ollama_window


@pytest.mark.parametrize(
    ("row", "window", "output"),
    [
        ({"id": "m", "object": "model"}, None, None),
        ({"id": "m", "max_model_len": 32_768}, 32_768, None),  # vLLM
        ({"id": "m", "max_context_length": 131_072, "loaded_context_length": 8_192}, 8_192, None),  # LM Studio
        ({"id": "m", "context_length": 200_000, "max_completion_tokens": 64_000}, 200_000, 64_000),
        ({"id": "m", "max_input_tokens": 1_000_000, "max_tokens": 128_000}, 1_000_000, 128_000),  # Anthropic
        ({"id": "m", "meta": {"n_ctx_train": 4_096, "n_params": 7}}, 4_096, None),  # llama.cpp
        ({"slug": "m", "context_window": 272_000}, 272_000, None),  # a catalogue
        ({"name": "m", "context_window": "many", "max_tokens": True}, None, None),
        ({"id": "m", "context_window": -1, "max_tokens": 1 << 60}, None, None),
    ],
)
def test_windows_and_output_limits_are_read_where_they_are_told(
    row: dict[str, Any], window: int | None, output: int | None
) -> None:
    assert read_list({"data": [row]}) == [ServerModel(slug="m", context_window=window, max_output_tokens=output)]


@pytest.mark.parametrize("answer", [None, [], "x", {}, {"data": 1}, {"data": [1, "m", {"id": 7}, {}, {"id": ""}]}])
def test_what_is_no_list_lists_nothing(answer: Any) -> None:
    assert read_list(answer) == []


def test_names_that_could_play_tricks_on_a_terminal_and_endless_lists_are_cut() -> None:
    assert read_list({"data": [{"id": "a\x1b[2J"}, {"id": "b\nc"}, {"id": "x" * 201}, {"id": "ok"}]}) == [
        ServerModel(slug="ok")
    ]
    assert len(read_list({"data": [{"id": f"m{number}"} for number in range(5_000)]})) == MOST_MODELS


@pytest.mark.parametrize(
    ("answer", "window"),
    [
        ({"model_info": {"general.architecture": "gptoss", "gptoss.context_length": 131_072}}, 131_072),
        ({"model_info": {"general.architecture": "gptoss"}}, None),
        ({"model_info": {"x.context_length": "long"}}, None),
        ({"model_info": 5}, None),
        ("no", None),
    ],
)
def test_ollama_tells_the_window_under_the_name_of_the_architecture(answer: Any, window: int | None) -> None:
    assert read_ollama_window(answer) == window
