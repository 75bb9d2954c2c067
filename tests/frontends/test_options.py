from __future__ import annotations

import pytest

from spindle.errors import UsageError
from spindle.frontends.help_pages import option_lines
from spindle.frontends.options import FLAG, LIST, OPTIONAL, PICTURES, VALUE, Option, Parsed, parse, whole_number

TABLE = (
    Option(("--json", "--experimental-json"), FLAG, "events as lines"),
    Option(("-m", "--model"), VALUE, "model", "MODEL"),
    Option(("-c", "--config"), LIST, "override", "KEY=VALUE"),
    Option(("-i", "--image"), PICTURES, "pictures", "FILE..."),
    Option(("-s", "--sandbox"), VALUE, "mode", "MODE", ("read-only", "workspace-write")),
)


def read(*argv: str) -> tuple[dict[str, object], list[str]]:
    parsed = parse(argv, TABLE)
    return parsed.values, parsed.words


def test_options_may_stand_before_between_and_after_the_words() -> None:
    assert read("-m", "x", "exec", "--json", "resume", "ID", "-s", "read-only", "go on") == (
        {"model": "x", "json": True, "sandbox": "read-only"},
        ["exec", "resume", "ID", "go on"],
    )


@pytest.mark.parametrize("spelling", [["-m", "x"], ["-mx"], ["-m=x"], ["--model", "x"], ["--model=x"]])
def test_a_value_may_be_glued_to_its_option(spelling: list[str]) -> None:
    assert read(*spelling) == ({"model": "x"}, [])


def test_a_list_option_collects_every_value_in_order() -> None:
    assert read("-c", "a=1", "exec", "--config", 'b="x=y"') == ({"config": ["a=1", 'b="x=y"']}, ["exec"])


def test_pictures_take_all_that_follows_until_an_option_or_a_double_dash() -> None:
    assert read("exec", "-i", "a.png", "b.png,c.png", "--", "-look") == (
        {"image": ["a.png", "b.png", "c.png"]},
        ["exec", "-look"],
    )


def test_a_lone_dash_is_a_word() -> None:
    assert read("exec", "-") == ({}, ["exec", "-"])


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--nope"], "unexpected argument '--nope'; see `spindle --help`"),
        (["--nope=3"], "unexpected argument '--nope'; see `spindle --help`"),
        (["-x"], "unexpected argument '-x'; see `spindle --help`"),
        (["-m"], "-m needs a value (MODEL)"),
        (["-m", "--json"], "-m needs a value (MODEL)"),
        (["--json=yes"], "--json takes no value"),
        (["-s", "full"], "invalid value 'full' for -s; use one of read-only, workspace-write"),
    ],
)
def test_a_bad_argument_is_named(argv: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(*argv)
    assert str(caught.value) == sentence


def test_an_optional_value_stands_behind_an_equals_sign_only() -> None:
    table = [Option(("--html",), OPTIONAL, "", "FILE")]
    assert parse(["--html", "word"], table) == Parsed({"html": ""}, ["word"])
    assert parse(["--html=word"], table) == Parsed({"html": "word"}, [])
    assert parse(["word"], table).value("html") is None
    assert "--html [FILE]" in option_lines(table)[0]


def test_a_whole_number_is_made_of_digits_that_can_be_counted_with() -> None:
    assert [whole_number(text) for text in ("0", "25", "007")] == [0, 25, 7]
    assert {whole_number(text) for text in ("", "²", "٣", "-1", "+1", " 1", "1e3", "9" * 5000)} == {None}
