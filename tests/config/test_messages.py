"""What people are told when a file cannot be used: where, which key, what was found, what is wanted."""

# ruff: noqa: E501 - tables read best with one case per line

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from config.throwaway import Setup
from spindle.config.keys import KEYS
from spindle.config.kinds import Table
from spindle.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("model = [unclosed\n", "1:10", "\n  1 | model = [unclosed"),
        ('model = "a"\n\nmodel = "b"\n', "3:12", 'this key or table is already set above\n  3 | model = "b"'),
        ("[a]\nx = 1\n[a]\n", "3:3", "\n  3 | [a]"),
        ("[a", "1:3", "\n  1 | [a"),
        ("# \u2028 \x85\n[a", "2:3", "\n  2 | [a"),
        ("a = 1\x1b[2J\n", "1:6", "\n  1 | a = 1\ufffd[2J"),
    ],
)
def test_broken_toml_is_shown_with_line_and_column(setup: Setup, text: str, place: str, message: str):
    path = setup.user(text)
    with pytest.raises(ConfigError) as raised:
        setup.load()
    assert str(raised.value).startswith(f"{path}:{place}: invalid TOML in configuration file: ")
    assert str(raised.value).endswith(message)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("# c\n\nmodel = 5\n", 3, "model must be a string, found an integer"),
        ("model_context_window = true\n", 1, "model_context_window must be an integer of 1 or more, found a boolean"),
        ("model_context_window = 0\n", 1, "model_context_window is 0, but must be an integer of 1 or more"),
        ("project_doc_max_bytes = 1.5\n", 1, "project_doc_max_bytes must be an integer of 0 or more, found a number with a fraction"),
        ("[spindle.context]\nprices = { input = -1 }\n", 2, "spindle.context.prices.input is -1, but must be a number of 0 or more"),
        ('hide_agent_reasoning = "yes"\n', 1, "hide_agent_reasoning must be true or false, found a string"),
        ('features = "x"\n', 1, "features must be a table, found a string"),
        ("[features]\n\nundo = 1\n", 3, "features.undo must be true or false, found an integer"),
        ('notify = ["a", 1]\n', 1, "notify must be an array of strings, found an integer among its members"),
        ('sandbox_mode = "open"\n', 1, "sandbox_mode is 'open', but must be one of read-only, workspace-write, danger-full-access"),
        ('approval_policy = "always"\n', 1, "approval_policy is 'always', but must be one of untrusted, on-failure, on-request, never"),
        ("approval_policy = 1\n", 1, "approval_policy must be one of untrusted, on-failure, on-request, never, found an integer"),
        ("[model_providers.'a.b']\nname = 'x'\nhttp_headers = { A = 1 }\n", 3, "model_providers.'a.b'.http_headers.A must be a string, found an integer"),
        ("model_providers.x.name = 2\n", 1, "model_providers.x.name must be a string, found an integer"),
        ("x.y = 1\n[model_providers]\nx = 1\n", 3, "model_providers.x must be a table, found an integer"),
        ("# \u2028\nmodel = 1\n", 2, "model must be a string, found an integer"),
        ("model = 2020-01-01\n", 1, "model must be a string, found a date or time"),
        ("[[skills.config]]\npath = 1\n", 2, "skills.config.path must be a path, found an integer"),
        ('log_dir = "a\\u0000b"\n', 1, "log_dir contains a NUL character"),
        ("[profiles.p]\nmodel = 1\n", 2, "profiles.p.model must be a string, found an integer"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_line(setup: Setup, text: str, line: int, message: str):
    path = setup.user(text)
    with pytest.raises(ConfigError) as raised:
        setup.load()
    assert str(raised.value) == f"{path}:{line}: {message}"


def test_wrong_values_on_the_command_line_are_named_too(setup: Setup):
    with pytest.raises(
        ConfigError, match=r"^-c: model_context_window must be an integer of 1 or more, found a string$"
    ):
        setup.load("model_context_window=many")
    with pytest.raises(ConfigError, match=r"^command line: sandbox_mode is 'x', but must be one of"):
        setup.load(flags={"sandbox_mode": "x"})


def test_a_secret_in_the_wrong_place_is_not_repeated(setup: Setup):
    setup.user('[model_providers.x]\nname = "x"\nhttp_headers = "Authorization: sk-secret"\n')
    with pytest.raises(ConfigError) as raised:
        setup.load()
    assert "sk-secret" not in str(raised.value)


def test_a_file_that_is_not_utf_8_is_an_error_with_its_line(setup: Setup):
    path = setup.user(b'model = "a"\n# caf\xe9\n')
    with pytest.raises(ConfigError) as raised:
        setup.load()
    assert str(raised.value) == f"{path}:2: the configuration file is not valid UTF-8 (byte 0xe9)"


def test_a_byte_order_mark_and_windows_line_ends_are_fine(setup: Setup):
    setup.user(b'\xef\xbb\xbfmodel = "a"\r\n[features]\r\nundo = true\r\n')
    config = setup.load()
    assert (config.model, config.features["undo"], config.warnings) == ("a", True, [])


def test_a_file_that_is_no_file_is_an_error_and_does_not_hang(setup: Setup):
    os.mkfifo(setup.path("home/config.toml"))
    with pytest.raises(ConfigError, match="cannot be read: not a regular file"):
        setup.load()


@pytest.mark.parametrize(
    ("text", "message"),
    [("a = " + "[" * 5000, "nested too deeply|invalid TOML"), ("#" * (1 << 20) + "\n", "is larger than 1048576 bytes")],
)
def test_a_monstrous_file_is_refused(setup: Setup, text: str, message: str):
    setup.user(text)
    with pytest.raises(ConfigError, match=message):
        setup.load()


def test_an_unknown_key_is_one_warning_with_the_nearest_known_one(setup: Setup):
    path = setup.user(
        'modle = "x"\n[features]\nundoo = true\n[model_providers.p]\nname = "p"\nbase_ulr = "x"\n[zzz]\na = 1\n'
    )
    assert setup.load().warnings == [
        f"{path}:1: unknown key modle; did you mean model?",
        f"{path}:3: unknown key features.undoo; did you mean features.undo?",
        f"{path}:6: unknown key model_providers.p.base_ulr; did you mean model_providers.p.base_url?",
        f"{path}:7: unknown key zzz",
    ]


def test_strict_makes_an_unknown_key_an_error(setup: Setup):
    path = setup.user('modle = "x"\n')
    with pytest.raises(ConfigError) as raised:
        setup.load(strict=True)
    assert str(raised.value) == f"{path}:1: unknown key modle; did you mean model?"


def test_many_unknown_keys_are_counted_not_listed(setup: Setup):
    path = setup.user("".join(f"zz{number} = 1\n" for number in range(30)))
    warnings = setup.load().warnings
    assert len(warnings) == 11 and warnings[-1] == f"{path}: 20 more unknown keys"


def test_control_characters_in_a_key_are_escaped(setup: Setup):
    setup.user('"a\\u001b[2J\\u202e" = 1\n')
    assert all(warning.isprintable() for warning in setup.load().warnings) and setup.load().warnings


def test_the_reserved_key_is_ignored_with_a_notice(setup: Setup):
    setup.user('instructions = "x"\n')
    assert setup.load().warnings == ["`instructions` is ignored; use developer_instructions or an AGENTS.md file"]


def every_key(table: Table, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key we know, with `x` for names of the user's choice."""
    for key, kind in table.keys.items():
        yield (*path, key)
        if isinstance(kind, Table) and key != "profiles":
            yield from every_key(kind, (*path, key, *(("x",) if kind.each else ())))


@pytest.mark.parametrize(
    "value", ["1", "-1", "1.5", "true", '""', '"x"', "[]", "[1]", '["x"]', "{}", "{ x = 1 }", "2020-01-01"]
)
def test_no_value_of_any_key_makes_the_program_fail_otherwise(setup: Setup, value: str):
    for path in every_key(KEYS):
        try:
            setup.load(f"{'.'.join(path)}={value}")
        except ConfigError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('experimental_bearer_token = "my plain secret" oops', 'experimental_bearer_token = "[secret: experimental_bearer_token]" oops'),
        ('experimental_bearer_token = "my plain secret', 'experimental_bearer_token = "[secret: experimental_bearer_token]"'),
        ('http_headers = { Authorization = "Bearer abc" ', 'http_headers = { Authorization = "[secret: http_headers]" '),
        ("base_url = 'https://me:pass-w0rd@h' x", "base_url = 'https://me:[secret: password in an address]@h' x"),
        ('env_key = "MY_KEY" oops', 'env_key = "MY_KEY" oops'),
    ],
)  # fmt: skip
def test_a_broken_line_is_shown_without_its_secrets(setup: Setup, line: str, shown: str) -> None:
    setup.user(f'[model_providers.x]\nname = "x"\n{line}\n')
    with pytest.raises(ConfigError) as caught:
        setup.load()
    assert str(caught.value).endswith(f"\n  3 | {shown}")
