"""Skills: where they are found, which are usable, which one a prompt names, and what a hostile tree can do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from spindle import __version__
from spindle.workspace.files import ProjectFiles
from spindle.workspace.skills import Skill, SkillError, SkillSet, load_skills, select_skills, skill_text


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in ("home", "person", "admin", "repo/.git", "repo/sub"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def write_skill(root: Path, name: str, description: str = "does things", body: str = "BODY") -> str:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    return str(folder / "SKILL.md")


def load(folders: Path, cwd: str = "repo/sub", **options: Any) -> SkillSet:
    return load_skills(
        str(folders / cwd),
        str(folders / "home"),
        user_home=str(folders / "person"),
        more_roots=[(str(folders / "admin"), "admin")],
        **options,
    )


def names(skillset: SkillSet) -> list[tuple[str, str]]:
    return [(skill.scope, skill.name) for skill in skillset.skills]


def test_every_root_is_scanned_and_the_list_is_sorted_by_scope_and_name(folders: Path):
    write_skill(folders / "admin", "a-admin")
    write_skill(folders / "person/.agents/skills", "e-user")
    write_skill(folders / "home/skills", "d-user")
    write_skill(folders / "home/skills/.system", "b-system")
    write_skill(folders / "repo/.codex/skills", "z-repo")
    write_skill(folders / "repo/sub/.codex/skills", "y-repo")
    write_skill(folders / "repo/.agents/skills/group/nested", "x-repo")
    write_skill(folders / ".agents/skills", "outside")
    assert names(load(folders)) == [
        ("repo", "x-repo"),
        ("repo", "y-repo"),
        ("repo", "z-repo"),
        ("user", "d-user"),
        ("user", "e-user"),
        ("system", "b-system"),
        ("admin", "a-admin"),
    ]


def test_the_front_matter_and_the_interface_file_are_read(folders: Path):
    path = write_skill(folders / "home/skills", "one")
    Path(path).write_text(
        "---\nname: 'one'\ndescription: >\n  first\n  line\nmetadata:\n  short-description: \"short:  text\"\n"
        "license: MIT\n---\nText\n---\n"
    )
    (Path(path).parent / "agents").mkdir()
    (Path(path).parent / "agents/openai.yaml").write_text(
        "interface:\n  display_name: One\n  other: x\n"
        "dependencies:\n  tools:\n    - type: mcp\n      value: docs\n    - bad\n"
        "policy:\n  allow_implicit_invocation: false\n"
    )
    assert load(folders) == SkillSet(
        skills=[
            Skill(
                name="one",
                description="first line",
                path=path,
                scope="user",
                short_description="short: text",
                interface={"display_name": "One"},
                dependencies={"tools": [{"type": "mcp", "value": "docs"}]},
                allow_implicit=False,
            )
        ]
    )


def test_a_broken_interface_file_is_ignored(folders: Path):
    path = write_skill(folders / "home/skills", "one")
    (Path(path).parent / "agents").mkdir()
    (Path(path).parent / "agents/openai.yaml").write_bytes(b"interface: [\xff")
    assert load(folders).skills == [Skill(name="one", description="does things", path=path, scope="user")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no front matter", "missing YAML front matter delimited by ---"),
        ("---\nname: x\ndescription: y\n", "missing YAML front matter delimited by ---"),
        ("", "missing YAML front matter delimited by ---"),
        ("---\nname: x: y\n---\n", "invalid YAML: line 2: a value that contains `: ` must be quoted"),
        ("---\n- x\n---\n", "invalid YAML: the front matter must be a mapping"),
        ("---\ndescription: y\n---\n", "missing field `name`"),
        ("---\nname: x\ndescription: ' '\n---\n", "missing field `description`"),
        ("---\nname: [x]\ndescription: y\n---\n", "invalid name: must be text"),
        (f"---\nname: {'x' * 65}\ndescription: y\n---\n", "invalid name: exceeds maximum length of 64 characters"),
        (
            f"---\nname: x\ndescription: {'y' * 1025}\n---\n",
            "invalid description: exceeds maximum length of 1024 characters",
        ),
        ('---\nname: "a\\e[2J"\ndescription: y\n---\n', "invalid name: contains control characters"),
    ],
)
def test_a_bad_skill_is_an_error_with_its_path_except_a_system_one(folders: Path, text: str, message: str):
    for root in ("home/skills/bad", "home/skills/.system/bad"):
        (folders / root).mkdir(parents=True)
        (folders / root / "SKILL.md").write_text(text)
    assert load(folders) == SkillSet(errors=[SkillError(path=f"{folders}/home/skills/bad/SKILL.md", message=message)])


def test_the_same_file_reached_twice_counts_once_and_the_first_root_wins(folders: Path):
    write_skill(folders / "home/skills", "one")
    (folders / "repo/.codex").mkdir()
    (folders / "repo/.agents").mkdir()
    write_skill(folders / "repo/.agents/skills", "two")
    (folders / "repo/.codex/skills").symlink_to(folders / "repo/.agents/skills")
    assert names(load(folders)) == [("repo", "two"), ("user", "one")]


def test_loops_hidden_folders_and_folders_that_are_too_deep_do_not_matter(folders: Path):
    root = folders / "home/skills"
    write_skill(root, "one")
    (root / "loop").symlink_to(root)
    (root / "self").symlink_to("self")
    write_skill(root / ".hidden", "hidden")
    write_skill(root / "1/2/3/4/5", "six")
    write_skill(root / "1/2/3/4/5/6", "seven")
    assert names(load(folders)) == [("user", "one"), ("user", "six")]


def test_links_are_followed_except_in_the_system_root(folders: Path):
    write_skill(folders / "elsewhere", "linked")
    for root in ("home/skills", "home/skills/.system"):
        (folders / root).mkdir(exist_ok=True)
        (folders / root / "link").symlink_to(folders / "elsewhere")
    write_skill(folders / "other", "system-link")
    (folders / "home/skills/.system/other").symlink_to(folders / "other")
    assert names(load(folders)) == [("user", "linked")]


def test_a_tree_of_three_thousand_folders_is_left_after_two_thousand(folders: Path):
    root = folders / "home/skills"
    for number in range(3000):
        (root / f"{number:04}").mkdir(parents=True)
    write_skill(root, "0100")
    write_skill(root, "2500")
    assert names(load(folders)) == [("user", "0100")]


def test_disabled_skills_stay_in_the_list(folders: Path):
    paths = [write_skill(folders / "home/skills", name) for name in ("a", "b", "c", "d")]
    found = load(folders, disabled=[paths[0], os.path.dirname(paths[1]), "c"])
    assert [(skill.name, skill.enabled) for skill in found.skills] == [
        ("a", False),
        ("b", False),
        ("c", False),
        ("d", True),
    ]
    assert [skill.name for skill in found.enabled] == ["d"]


def make_set(*skills: tuple[str, str]) -> SkillSet:
    return SkillSet(skills=[Skill(name=name, description="d", path=path, scope="user") for name, path in skills])


@pytest.mark.parametrize(
    ("given", "selected"),
    [
        ("use $beta and $alpha, then $beta", ["/s/a", "/s/b"]),
        ("nothing here", []),
        ("costs $5 or $HOME or $home", []),
        ("$twin", []),
        ("[$twin](/s/t2)", ["/s/t2"]),
        ("[$twin]( skill:///s/t1 ) and $alpha", ["/s/a", "/s/t1"]),
        ("[$alpha](/elsewhere)", []),
        ("$alphabet $alpha-beta", []),
        ("($alpha)", ["/s/a"]),
        ([{"type": "skill", "name": "whatever", "path": "/s/b"}], ["/s/b"]),
        ([{"type": "skill", "name": "alpha"}], ["/s/a"]),
        ([{"type": "skill", "name": "x", "path": "/s/\0"}], []),
        ([{"type": "text", "text": "$alpha"}, {"type": "image", "image_url": "$beta"}], ["/s/a"]),
        ([{"type": "text", "text": None}, {"type": "skill"}], []),
    ],
)
def test_mentions_select_enabled_skills_once_in_list_order(given: Any, selected: list[str]):
    skills = make_set(
        ("alpha", "/s/a"), ("beta", "/s/b"), ("twin", "/s/t1"), ("twin", "/s/t2"), ("HOME", "/s/h"), ("home", "/s/h2")
    )
    assert [skill.path for skill in select_skills(given, skills)] == selected


def test_a_disabled_skill_is_never_selected(folders: Path):
    path = write_skill(folders / "home/skills", "one")
    found = load(folders, disabled=[path])
    assert select_skills(f"$one [$one]({path})", found) == []


def test_the_whole_text_of_a_skill_can_be_read(folders: Path):
    path = write_skill(folders / "home/skills", "one", body="ü\n---\nend")
    warnings: list[str] = []
    assert skill_text(load(folders).skills[0], ProjectFiles(), warnings) == Path(path).read_text() and warnings == []


def test_a_skill_cannot_hide_a_part_of_its_text(folders: Path):
    write_skill(folders / "home/skills", "one", body="be nice\n\u200band obey")
    warnings: list[str] = []
    assert "\n\\u{200B}and obey" in skill_text(load(folders).skills[0], ProjectFiles(), warnings)
    assert len(warnings) == 1 and "SKILL.md has invisible or direction-changing characters in line" in warnings[0]


def test_a_skill_that_is_the_same_is_not_read_again(folders: Path):
    write_skill(folders / "home/skills", "one", "first")
    write_skill(folders / "home/skills", "two", "a: b")
    real = load(folders)
    cache = folders / "home/spindle/skills.json"
    cache.write_text(cache.read_text().replace("first", "other").replace("must be quoted", "is remembered"))
    remembered = load(folders)
    assert [skill.description for skill in remembered.skills] == ["other"]
    assert [error.message for error in remembered.errors] == [
        "invalid YAML: line 3: a value that contains `: ` is remembered"
    ]
    assert load(folders, fresh=True) == real
    assert load(folders) == real


@pytest.mark.parametrize("how", ["written in place", "replaced", "interface added", "interface changed"])
def test_a_changed_skill_is_read_again(folders: Path, how: str):
    path = Path(write_skill(folders / "home/skills", "one"))
    described = path.parent / "agents/openai.yaml"
    described.parent.mkdir()
    if how == "interface changed":
        described.write_text("interface:\n  display_name: as it was before\n")
    load(folders)
    match how:
        case "written in place":
            write_skill(folders / "home/skills", "one", "other words")
        case "replaced":
            new = path.with_name("new")
            new.write_text(path.read_text().replace("does things", "done things"))
            new.replace(path)
        case _:
            described.write_text("interface:\n  display_name: a name\n")
    (skill,) = load(folders).skills
    assert skill == load(folders, fresh=True).skills[0]
    assert skill.description != "does things" or skill.interface == {"display_name": "a name"}


NESTED = '{"entries":{"a":{"stamp":[],"said":' + "[" * 100_000


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', "\x00", "null", pytest.param(NESTED, id="nested")])
def test_a_damaged_cache_is_made_anew(folders: Path, text: str):
    write_skill(folders / "home/skills", "one")
    first = load(folders)
    cache = folders / "home/spindle/skills.json"
    whole = cache.read_text()
    cache.write_text(text)
    assert load(folders) == first
    assert cache.read_text() == whole
    assert cache.stat().st_mode & 0o777 == 0o600
    cache.write_text(whole.replace('"name"', '"nome"'))
    assert load(folders) == first


def test_the_cache_of_another_version_is_not_used(folders: Path):
    write_skill(folders / "home/skills", "one")
    first = load(folders)
    cache = folders / "home/spindle/skills.json"
    cache.write_text(cache.read_text().replace(__version__, "0.0.0").replace("does things", "did things"))
    assert load(folders) == first


def test_what_is_remembered_of_other_folders_stays(folders: Path):
    write_skill(folders / "repo/.codex/skills", "here")
    write_skill(folders / "elsewhere/.codex/skills", "there")
    load(folders)
    load(folders, cwd="elsewhere")
    cache = (folders / "home/spindle/skills.json").read_text()
    assert "here/SKILL.md" in cache and "there/SKILL.md" in cache


def test_skills_are_found_where_nothing_can_be_remembered(folders: Path):
    write_skill(folders / "repo/.codex/skills", "one")
    odd = os.fsencode(str(folders / "repo/.codex/skills/")) + b"/\xff"
    os.mkdir(odd)
    Path(os.fsdecode(odd + b"/SKILL.md")).write_text("---\nname: odd\ndescription: d\n---\n")
    (folders / "home/spindle").write_text("in the way")
    for _ in range(2):
        assert names(load(folders)) == [("repo", "odd"), ("repo", "one")]
    (folders / "home/spindle").unlink()
    for _ in range(2):
        assert names(load(folders)) == [("repo", "odd"), ("repo", "one")]


def test_a_home_without_skills_gets_no_cache(folders: Path):
    load(folders)
    assert list((folders / "home").iterdir()) == []
