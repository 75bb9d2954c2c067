"""Values that cannot be used are a ValueError with one sentence, before anything is opened or sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api.homes import Client
from api.kit import stable_id
from spindle import ConfigError, ImageInput, MentionInput, SkillInput, Spindle, TextInput
from spindle.testing import ScriptedModel, says

CLIENTS: list[dict[str, Any]] = [
    {"home": 3},
    {"home": ""},
    {"home": "a\0b"},
    {"home": b"/tmp"},
    {"profile": 3},
    {"profile": ""},
    {"client_name": ""},
    {"client_name": 4},
    {"client_name": "a\r\nX-Other: b"},
    {"client_name": "☃"},
    {"model_client": object()},
]


@pytest.mark.parametrize("options", CLIENTS, ids=stable_id)
def test_a_client_is_not_made_with_what_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Spindle(**options)


@pytest.mark.parametrize(
    "option",
    [{"cwd": ""}, {"add_dirs": [None]}, {"add_dirs": [""]}, {"model_client": object()}, {"model": "m\ud800"}],
    ids=stable_id,
)
def test_a_thread_is_not_opened_with_what_cannot_be(client: Client, workspace: Path, option: dict[str, Any]) -> None:
    spindle = client(says("a"))
    with pytest.raises(ValueError, match=next(iter(option))):
        spindle.thread_start(**{"cwd": workspace, **option})
    assert spindle.threads.list().data == []


@pytest.mark.parametrize("value", [object(), {1, 2}], ids=stable_id)
def test_a_setting_that_no_file_could_have_is_named(client: Client, workspace: Path, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"features\.collab cannot be"):
        client(config={"features": {"collab": value}}).thread_start(cwd=workspace)


@pytest.mark.parametrize("value", [None, 3, b"x", ["x"]], ids=stable_id)
def test_a_thread_is_named_by_a_text(client: Client, value: Any) -> None:
    spindle = client()
    for use in (
        spindle.thread_resume,
        spindle.thread_fork,
        spindle.thread_archive,
        spindle.thread_unarchive,
        spindle.thread_delete,
        spindle.threads.read,
        spindle.threads.export,
    ):
        with pytest.raises(ValueError, match="id or name"):
            use(value)


@pytest.mark.parametrize(
    "option",
    [{"cursor": "junk"}, {"cursor": 3}, {"cwd": 3}, {"cwd": "\0"}, {"search": 3}, {"limit": 0}],
    ids=stable_id,
)
def test_a_list_says_which_of_its_arguments_cannot_be(client: Client, option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        client().threads.list(**option)


@pytest.mark.parametrize(
    "given",
    [
        b"text",
        TextInput(3),  # pyright: ignore[reportArgumentType]
        SkillInput("name", 4),  # pyright: ignore[reportArgumentType]
        MentionInput("name", None),  # pyright: ignore[reportArgumentType]
        {"type": "mention", "name": "a", "path": 3},
        ImageInput(""),
        ImageInput("file:///etc/hostname"),
        ImageInput("data:text/plain;base64,aGk="),
        {"type": "image", "url": "data:image/png;base64,"},
        {"type": "image", "url": "data:image/png;base64,@@@"},
    ],
    ids=stable_id,
)
def test_an_input_that_no_model_could_read_is_refused(client: Client, workspace: Path, given: Any) -> None:
    model = ScriptedModel(says("a"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    with pytest.raises(ValueError, match=r"cannot be used|not bytes"):
        thread.run(given)
    assert thread.run("then this").final_response == "a" and len(model.requests) == 1


@pytest.mark.parametrize(
    "options", [{"images": 3}, {"images": {"a": 1}}, {"images": ["data:junk"]}, {"timeout": True}], ids=stable_id
)
def test_a_turn_is_not_run_with_what_cannot_be(client: Client, workspace: Path, options: dict[str, Any]) -> None:
    thread = client(says("a")).thread_start(cwd=workspace)
    with pytest.raises(ValueError, match=r"picture|timeout"):
        thread.run("go", **options)
