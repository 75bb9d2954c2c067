"""Repositories times git command lines, run with the real git: whatever ran was confined, asked for, or the user's own.

A sample in every run; with GIT_EVERYTHING=1 all of them, each setting also by itself.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from git_canaries import EVERYTHING, KINDS, LINES, USERS, Place, copied, template
from spindle.policy.approval import Allow, Ask, Circumstances, Decision, decide_command
from spindle.policy.git_drivers import programs_named
from spindle.policy.git_reach import git_in_reach
from spindle.policy.reach import Reach
from spindle.policy.rules import Rule, RuleSet
from spindle.policy.safe import is_known_safe, safe_environment
from spindle.policy.sandbox import boundary_of
from spindle.policy.words import split_script
from spindle.protocol.settings import ApprovalPolicy, SandboxPolicy

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
IS_UNBOUNDED = bool(os.environ.get("GIT_EVERYTHING"))
SAMPLE = 5
WRITE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
SETS = [EVERYTHING, *([name] for name in EVERYTHING if IS_UNBOUNDED)]
AGENTS = [kind for kind in KINDS if kind not in USERS]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return template(tmp_path_factory.mktemp("git") / "original")


@pytest.fixture
def made(original: Place, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    kind, names = request.param
    place = copied(original, tmp_path / "made")
    KINDS[kind][0](place, names)
    return place


def would_go_out(place: Place, script: str, cwd: Path) -> bool:
    """Would a rule that covers every word of the line let all of it out?"""
    reach = Reach(boundary_of(WRITE, cwd=str(place.work), env=place.env, home=""), env=place.env)
    parts = [words for _, words in split_script(script) or ()]
    cwds = (str(cwd), os.path.realpath(cwd))
    return not any(git_in_reach(parts[: at + 1], cwds, place.env, reach) for at in range(len(parts)))


def decided(
    place: Place, script: str, cwd: Path, policy: ApprovalPolicy, rule: Sequence[str] | None = None
) -> Decision:
    boundary = boundary_of(WRITE, cwd=str(place.work), env=place.env, home="")
    reach, cwds = Reach(boundary, env=place.env), (str(cwd), os.path.realpath(cwd))
    circumstances = Circumstances(
        policy=policy,
        sandbox=WRITE,
        git_runs_programs=lambda parts: bool(programs_named(parts, cwds, place.env)),
        git_in_reach=lambda parts, given: git_in_reach(parts, cwds, place.env, reach, given=given),
    )
    rules = RuleSet((Rule(pattern=tuple((word,) for word in rule)),)) if rule is not None else None
    return decide_command(["bash", "-c", script], circumstances, rules=rules)


def scripts(kind: str, folder: str, lines: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Each line, once where it is started in the folder and once where it goes there: the folder, and the script."""
    for words in lines:
        line = shlex.join(["git", *words])
        yield folder, line
        if folder:
            yield "", f"cd {folder} && {line}"


def sample(kind: str, names: Sequence[str]) -> list[list[str]]:
    if IS_UNBOUNDED:
        return LINES
    chosen = random.Random(f"{kind} {names}").sample(LINES, SAMPLE)
    return [["status"], ["commit", "-a", "-m", "x"], *chosen]


def cases(kinds: Sequence[str]) -> list[object]:
    sets = {kind: SETS if kind in AGENTS else SETS[:1] for kind in kinds}
    return [
        pytest.param((kind, names), id=f"{kind}-{names[0] if len(names) == 1 else 'everything'}")
        for kind in kinds
        for names in sets[kind]
    ]


@pytest.mark.parametrize("made", cases(AGENTS), indirect=True)
def test_row1_a_rule_lets_nothing_of_the_agents_out(
    made: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kind, names = request.node.callspec.params["made"]
    confined = 0
    for folder in KINDS[kind][1]:
        for number, (start, script) in enumerate(scripts(kind, folder, sample(kind, names))):
            if not would_go_out(made, script, made.work / start):
                confined += 1
                continue
            place = copied(made, tmp_path / f"{folder.replace('/', '-')}{number}")
            relinked(place, made)
            ran = place.run(["bash", "-c", script], place.work / start, place.env)
            assert not {name for name in ran if name.startswith("agent:")}, (kind, start, script, ran)
    assert confined


def relinked(place: Place, made: Place) -> None:
    """Settings and programs name paths of the original; the copy is to have its own."""
    for folder, _, files in os.walk(place.base):
        for name in files:
            path = Path(folder) / name
            if path.is_symlink() or (path.parent.name != "hooks" and "objects" in path.parts):
                continue
            content = path.read_bytes()
            if str(made.base).encode() in content and b"\0" not in content:
                path.write_bytes(content.replace(str(made.base).encode(), str(place.base).encode()))


@pytest.mark.parametrize("made", cases(AGENTS), indirect=True)
def test_the_canaries_live(made: Place, request: pytest.FixtureRequest) -> None:
    """Without a fence they do run: what is confined above is confined for a reason."""
    kind, names = request.node.callspec.params["made"]
    if len(names) == 1:
        pytest.skip("each setting by itself needs its own command")
    for folder in KINDS[kind][1][::-1]:
        for words in (["status"], ["commit", "-a", "-m", "x"], ["push", "o", "HEAD:refs/heads/z"], ["log", "-p"]):
            script = f"cd ./{folder} && {shlex.join(['git', *words])}"
            if any(name.startswith("agent:") for name in made.run(["bash", "-c", script], made.work, made.env)):
                return
    pytest.fail(f"no canary of {kind} ran")


@pytest.mark.parametrize("made", cases(USERS), indirect=True)
def test_what_is_the_users_own_goes_on_as_before(made: Place, request: pytest.FixtureRequest) -> None:
    """Hooks, signing, editor, filters in the home or in the protected `.git`: a rule lets git out, unasked."""
    kind, _ = request.node.callspec.params["made"]
    ordinary = [words for words in LINES if not words[0].startswith(("-C", "--git-dir")) and words[0] != "worktree"]
    for folder in KINDS[kind][1]:
        for words in ordinary:
            line = ["git", *words]
            decision = decided(made, shlex.join(line), made.work / folder, "on-request", line)
            assert decision == Allow(sandboxed=False), (words, decision)
    ran = made.run(["bash", "-c", "git add -A && git commit -m x"], made.work, made.env)
    assert kind == "plain" or any(name.startswith("user:") for name in ran)


@pytest.mark.parametrize("made", cases([*AGENTS, "plain"]), indirect=True)
def test_row4_what_only_looks_runs_nothing_unasked(made: Place, request: pytest.FixtureRequest) -> None:
    """Under `untrusted`, as commands that are known to be safe: with the settings that they get."""
    kind, _ = request.node.callspec.params["made"]
    if kind in ("on_the_path", "by_variable", "hooks_by_module", "included"):
        pytest.skip("the user's own settings name it, and it stays inside")
    for folder in KINDS[kind][1]:
        reading = [words for words in LINES if is_known_safe(["git", *words])]
        for start, script in scripts(kind, folder, reading):
            decision = decided(made, script, made.work / start, "untrusted")
            if isinstance(decision, Ask):
                continue
            argv = ["bash", "-c", script]
            ran = made.run(argv, made.work / start, made.env | safe_environment(argv, made.env))
            assert not ran, (kind, start, script, ran)
    if kind == "plain":
        assert decided(made, "git status", made.work, "untrusted") == Allow(sandboxed=True)
