"""Rule files: what they may say, what a mistake costs, which layers may allow, how the user's own is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.errors import RulesError
from spindle.policy.rules import (
    Rule,
    RuleMatch,
    RuleSet,
    allow_line,
    append_allowed,
    parse_rules,
    read_rules,
    remove_allowed,
    strictest,
)

EXAMPLE = """\
# what people write
prefix_rule(
    pattern = ["git", ["push", "fetch"]],     # a list = alternatives at that place
    decision = "prompt",
    justification = "ask before touching the remote",
    match = [["git", "push"], "git fetch 'origin'"],
    not_match = ["git status"],
)

prefix_rule(pattern=["ls"]); prefix_rule(pattern=["rm"], decision="forbidden")
"""


def rules_in(folder: Path, **files: str | bytes) -> tuple[RuleSet, list[str]]:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.rules").write_bytes(text.encode() if isinstance(text, str) else text)
    return RuleSet.load([(str(folder), True)])


def test_a_file_of_rules_is_read() -> None:
    assert parse_rules(EXAMPLE, "a.rules") == [
        Rule((("git",), ("push", "fetch")), "prompt", "ask before touching the remote"),
        Rule((("ls",),)),
        Rule((("rm",),), "forbidden"),
    ]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ('"a"', "a"),
        ("'a\"b'", 'a"b'),
        ("'''a\nb'''", "a\nb"),
        ('"""a"b"""', 'a"b'),
        (r"r'\d+'", "\\d+"),
        (r'"\n\t\\\"\'"', "\n\t\\\"'"),
        (r'"\x41\u00e9\U0001f600\101"', "Aé😀A"),
        (r'"\q"', "\\q"),
        ('"a\\\nb"', "ab"),
        ('"#no comment"', "#no comment"),
    ],
)
def test_strings_are_those_of_starlark(literal: str, value: str) -> None:
    assert parse_rules(f"prefix_rule(pattern=[{literal}])", "f") == [Rule(((value,),))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('prefix_rule(["git"])', "f:1: the name of an argument (arguments are given as name = value) is wanted here"),
        ("prefix_rule()", "f:1: `pattern` must be a list of strings"),
        ("prefix_rule(pattern=[])", "f:1: `pattern` must not be empty"),
        ('prefix_rule(pattern=["a", []])', "f:1: a list of alternatives in `pattern` must not be empty"),
        ('prefix_rule(pattern=[["a", ["b"]]])', "f:1: `pattern` holds strings and lists of strings, nothing deeper"),
        ("prefix_rule(pattern=[[[[[]]]]])", "f:1: the lists are nested too deep"),
        ('prefix_rule(pattern="git")', "f:1: `pattern` must be a list of strings"),
        ('prefix_rule(pattern=["a" "b"])', "f:1: a comma or the closing `]` is wanted here"),
        ('prefix_rule(pattern=["a",,])', "f:1: a string or a list of strings is wanted here"),
        ('\n\nprefix_rule(pattern=["a"],\n  decision="deny")', "f:3: `decision` must be"),
        ('prefix_rule(pattern=["a"], decision=["allow"])', "f:1: `decision` must be"),
        ('prefix_rule(pattern=["a"], justification=" ")', "f:1: `justification` must be a string that says something"),
        ('prefix_rule(pattern=["a"], pattern=["b"])', "f:1: `pattern` is given twice"),
        ('prefix_rule(pattern=["a"], patern=["b"])', "f:1: prefix_rule has no argument `patern`"),
        ('prefix_rule(pattern=["a"], match=["b"])', "f:1: the example `b` in `match` does not match the pattern"),
        ('prefix_rule(pattern=["a"], not_match=["a b"])', "f:1: the example `a b` in `not_match` matches the pattern"),
        ('prefix_rule(pattern=["a"], match=[""])', "f:1: an example in `match` is neither"),
        ('prefix_rule(pattern=["a"], match=[[]])', "f:1: an example in `match` is neither"),
        ('prefix_rule(pattern=["a"], match=["a \'b"])', "f:1: an example in `match` is neither"),
        ('prefix_rule(pattern=["a"], match="a")', "f:1: `match` must be a list of examples"),
        ('prefix_rule(pattern=["a)', "f:1: this string has no end"),
        ('prefix_rule(pattern=["a\n"])', "f:1: this string has no end on its line"),
        ('prefix_rule(pattern=["a"]', "f:1: a comma or the closing `)` is wanted here"),
        ('prefix_rule(pattern=["a"]) x', "f:1: a statement must end with its line"),
        (' prefix_rule(pattern=["a"])', "f:1: this line is indented"),
        (r'prefix_rule(pattern=["\ud800"])', "f:1: `\\ud800` is not a character"),
        ('x = ["a"]', "f:1: only calls like prefix_rule(...) are understood here, not `x` alone"),
        ("prefix_rule(pattern=x)", "f:1: a string or a list of strings is wanted here"),
        ('prefix_rule(pattern=["a"] + ["b"])', "f:1: a comma or the closing `)` is wanted here"),
        ('load("x", "y")', "f:1: the name of an argument"),
        ('__import__(name="os")', "f:1: there is no statement `__import__`"),
        ("def f(): pass", "f:1: only calls like"),
        ("\ufeffprefix_rule()", "f:1: a rule such as prefix_rule(...) is wanted here"),
        ("prefix_rule(pattern=['a'])\0", "f:1: a statement must end with its line"),
        ("#" * 300_000, "f:1: the file is longer than 256 KB"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_mistake_is_named_with_its_line_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(RulesError) as raised:
        parse_rules(text, "f")
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_every_matching_rule_counts_and_the_strictest_wins(tmp_path: Path) -> None:
    rules, warnings = rules_in(
        tmp_path / "rules",
        b='prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="why")',
        a='prefix_rule(pattern=["git"])\nprefix_rule(pattern=["hg"], decision="forbidden")',
    )
    assert warnings == []
    found = rules.match(["git", "push", "-f"])
    assert found == [RuleMatch(("git",), "allow"), RuleMatch(("git", "push"), "prompt", "why")]
    assert strictest(match.decision for match in found) == "prompt"
    assert rules.match(["git-x"]) == rules.match(["/usr/bin/git"]) == rules.match([]) == []
    assert strictest([]) is None


def test_a_broken_file_allows_nothing_but_still_asks_and_forbids(tmp_path: Path) -> None:
    broken = """\
prefix_rule(pattern=["ls"])
prefix_rule(pattern=["one"], decision="prompt")
prefix_rule(pattern=["oops)
prefix_rule(pattern=["two"], decision="forbidden", match=["three"])
  prefix_rule(pattern=["four"], decision="forbidden")
prefix_rule(pattern=["cat"])
"""
    rules, warnings = rules_in(tmp_path / "rules", broken=broken, fine='prefix_rule(pattern=["pwd"])')
    assert [match.decision for word in ("ls", "one", "two", "four", "cat", "pwd") for match in rules.match([word])] == [
        *("prompt", "forbidden", "forbidden", "allow")
    ]
    path = tmp_path / "rules" / "broken.rules"
    assert warnings == [
        f"{path}:3: this string has no end on its line (and 2 more); "
        "until that is mended, the rules of this file allow nothing"
    ]


def test_a_layer_without_trust_may_only_ask_and_forbid(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text('prefix_rule(pattern=["ls"])\nprefix_rule(pattern=["rm"], decision="forbidden")')
    rules, warnings = RuleSet.load([(str(tmp_path / "absent"), True), (str(tmp_path), False)])
    assert (rules.match(["ls"]), rules.match(["rm"])) == ([], [RuleMatch(("rm",), "forbidden")])
    assert (warnings, rules.allowed_prefixes) == ([], ())


def test_files_that_cannot_be_read_are_warned_of(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    os.mkfifo(folder / "pipe.rules")
    (folder / "folder.rules").mkdir()
    (folder / "gone.rules").symlink_to(tmp_path / "nowhere")
    (folder / "loop.rules").symlink_to("loop.rules")
    rules, warnings = rules_in(
        folder, bytes=b'prefix_rule(pattern=["ls"])\n\xff', huge="#" * 300_000, z='prefix_rule(pattern=["pwd"])'
    )
    assert rules.allowed_prefixes == (("pwd",),)
    assert [warning.replace(str(folder), "") for warning in warnings] == [
        "/bytes.rules:2: is not UTF-8 text; none of its rules count",
        "/folder.rules: is not a file; none of its rules count",
        "/gone.rules: cannot be read: No such file or directory; none of its rules count",
        "/huge.rules: is longer than 256 KB; none of its rules count",
        "/loop.rules: cannot be read: Too many levels of symbolic links; none of its rules count",
        "/pipe.rules: is not a file; none of its rules count",
    ]


def test_a_link_cannot_allow(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('prefix_rule(pattern=["ls"])\nprefix_rule(pattern=["rm"], decision="prompt")')
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "a.rules").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "linked").symlink_to(tmp_path / "rules")
    for folder in ("rules", "linked"):
        rules, warnings = RuleSet.load([(str(tmp_path / folder), True)])
        assert (rules.match(["ls"]), len(rules.match(["rm"]))) == ([], 1)
        assert warnings == [f"{tmp_path}/{folder}/a.rules: is reached through a link, so its rules allow nothing"]


def test_an_answer_becomes_one_line_once(tmp_path: Path) -> None:
    path = append_allowed(str(tmp_path), ["npm", "run", "te st"])
    append_allowed(str(tmp_path), ["npm", "run", "te st"])
    append_allowed(str(tmp_path), ["make", "x"])
    assert path == str(tmp_path / "rules" / "default.rules")
    assert Path(path).read_text().splitlines() == [
        'prefix_rule(pattern=["npm", "run", "te st"], decision="allow")',
        'prefix_rule(pattern=["make", "x"], decision="allow")',
    ]
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(tmp_path / "rules").st_mode & 0o777 == 0o700
    assert os.listdir(tmp_path / "rules") == ["default.rules"]


def test_the_file_is_the_user_s_own_under_any_umask(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    before = os.umask(0o777)
    try:
        path = append_allowed(str(tmp_path), ["a", "b"])
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_what_people_wrote_stays_when_an_answer_is_added_and_taken_back(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    path = tmp_path / "rules" / "default.rules"
    mine = '# mine\nprefix_rule(\n  pattern=["git", "push"],\n  decision="prompt",\n)\nprefix_rule(pattern=["a"])'
    path.write_text(mine)
    append_allowed(str(tmp_path), ["a"])
    assert path.read_text() == mine
    append_allowed(str(tmp_path), ["b"])
    assert path.read_text() == mine + '\nprefix_rule(pattern=["b"], decision="allow")\n'
    assert remove_allowed(str(tmp_path), ["b"])
    assert path.read_text() == mine + "\n"
    assert remove_allowed(str(tmp_path), ["a"])
    assert path.read_text() == mine.replace('prefix_rule(pattern=["a"])', "")
    assert not remove_allowed(str(tmp_path), ["git", "push"])
    assert not remove_allowed(str(tmp_path / "absent"), ["a"])


def test_a_linked_file_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "victim").write_text("")
    (tmp_path / "rules" / "default.rules").symlink_to(tmp_path / "victim")
    with pytest.raises(RulesError, match="is a link"):
        append_allowed(str(tmp_path), ["a", "b"])
    assert (tmp_path / "victim").read_text() == ""


@pytest.mark.parametrize("prefix", [[], ["a\udc80"]])
def test_a_prefix_that_cannot_be_a_rule_is_refused(tmp_path: Path, prefix: list[str]) -> None:
    with pytest.raises(RulesError):
        append_allowed(str(tmp_path), prefix)
    assert not (tmp_path / "rules").exists()


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("")
    with pytest.raises(RulesError, match="cannot be written"):
        append_allowed(str(tmp_path), ["a", "b"])


def test_two_processes_do_not_lose_each_other_s_answers(tmp_path: Path) -> None:
    code = (
        "import sys; from spindle.policy.rules import append_allowed\n"
        "for n in range(15): append_allowed(sys.argv[1], [sys.argv[2], str(n)])"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in ("a", "b", "c")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    rules, warnings = RuleSet.load([(str(tmp_path / "rules"), True)])
    assert (len(rules), warnings) == (45, [])


def test_an_answer_counts_at_once_and_can_be_taken_back() -> None:
    rules = RuleSet().with_allowed(["make", "test"])
    assert rules.with_allowed(["make", "test"]) is rules
    assert rules.match(["make", "test", "-j"]) == [RuleMatch(("make", "test"), "allow")]
    assert rules.allowed_prefixes == (("make", "test"),)
    assert rules.without_allowed(["make", "test"]).match(["make", "test"]) == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_whatever_is_written_is_read_again(prefix: list[str]) -> None:
    line = allow_line(prefix)
    assert "\n" not in line
    assert parse_rules(line, "f") == [Rule(tuple((word,) for word in prefix))]


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "prefix_rule(",
                    "pattern=",
                    '["a"]',
                    "[",
                    "]",
                    ")",
                    ",",
                    '"',
                    "'''",
                    "\n",
                    " ",
                    "#",
                    "\\",
                    ";",
                    "=",
                    "r'",
                ),
                *('prefix_rule(pattern=["a"])', 'decision="forbidden"', "\x00", "é", "\r"),
            ]
        ),
        max_size=30,
    ).map("".join)
)
@settings(max_examples=200, deadline=None)
def test_no_text_breaks_the_reader(text: str) -> None:
    rules, errors = read_rules(text, "f")
    assert all(str(error).startswith("f:") for error in errors)
    assert all(rule.pattern for rule in rules)


@pytest.mark.parametrize(
    "line", ["prefix_rule(pattern=['''", 'prefix_rule(pattern=["a"', " x", "prefix_rule(", "'''a'"]
)
def test_a_long_broken_file_is_read_in_reasonable_time(line: str) -> None:
    text = "\n".join([line] * (250_000 // (len(line) + 1)))
    started = time.process_time()
    _, errors = read_rules(text, "f")
    assert errors
    assert time.process_time() - started < 5


def test_the_rules_that_the_documentation_shows_are_right() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rules.md").read_text()
    blocks = re.findall(r"```starlark\n(.*?)```", page, re.DOTALL)
    assert [len(parse_rules(block, "rules.md")) for block in blocks] == [3, 1]
