"""Settings within other settings never allow more than those."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spindle.policy.narrow import narrowed, narrowed_sandbox
from spindle.policy.sandbox import boundary_of
from spindle.protocol.settings import (
    APPROVAL_POLICIES,
    STRICT_TO_LOOSE,
    Access,
    Granular,
    PathRule,
    PermissionProfile,
    SandboxPolicy,
    ThreadSettings,
)

FOLDERS = ("w", "w/a", "w/a/b", "w/.git", "other", "other/deep", "link")
MODES = ("read-only", *["workspace-write"] * 5, "danger-full-access", "external-sandbox")
"""The one with the most to decide comes up most."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("tree")
    for name in FOLDERS[:-1]:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "link").symlink_to(root / "other")
    return str(root)


folders = st.sampled_from(FOLDERS)
policies = st.builds(
    SandboxPolicy,
    mode=st.sampled_from(MODES),
    writable_roots=st.lists(folders, max_size=3).map(tuple),
    network_access=st.booleans(),
    exclude_tmpdir_env_var=st.booleans(),
    exclude_slash_tmp=st.booleans(),
)


PLACES = (":workspace_roots", ":workspace_roots/a", ":root", ":slash_tmp", ":tmpdir", "w", "w/a/b", "w/.git", "other")
profiles = st.builds(
    lambda rules: PermissionProfile(name="p", rules=tuple(PathRule(*rule) for rule in rules.items())),
    st.dictionaries(st.sampled_from(PLACES), st.sampled_from(("read", "write", "deny")), min_size=1, max_size=5),
)
either = st.one_of(policies, st.builds(SandboxPolicy, permissions=profiles, network_access=st.booleans()))


def writes(*roots: str) -> SandboxPolicy:
    return SandboxPolicy(mode="workspace-write", writable_roots=roots)


def of_rules(rules: dict[str, Access]) -> SandboxPolicy:
    profile = PermissionProfile(name="p", rules=tuple(PathRule(*rule) for rule in rules.items()))
    return SandboxPolicy(permissions=profile)


READS_WORK: dict[str, Access] = {":workspace_roots": "read", ":root": "read"}
DENIES_WORK_BY_NAME: dict[str, Access] = {"other": "deny", **READS_WORK}


def placed(policy: SandboxPolicy, tree: str) -> SandboxPolicy:
    if policy.permissions is not None:
        rules = policy.permissions.rules
        there = tuple(rule if rule.place[0] == ":" else PathRule(f"{tree}/{rule.place}", rule.access) for rule in rules)
        profile = PermissionProfile(name="p", rules=there)
        mode = "workspace-write" if profile.can_write else "read-only"
        return SandboxPolicy(mode=mode, network_access=policy.network_access, permissions=profile)
    roots = tuple(f"{tree}/{name}" for name in policy.writable_roots)
    return SandboxPolicy(
        mode=policy.mode,
        writable_roots=roots,
        network_access=policy.network_access,
        exclude_tmpdir_env_var=policy.exclude_tmpdir_env_var,
        exclude_slash_tmp=policy.exclude_slash_tmp,
    )


def limit_may_read(limit: SandboxPolicy, cwd: str, env: dict[str, str], path: str) -> bool:
    return boundary_of(limit, cwd=cwd, env=env, home="").may_read(path)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(own=either, cwd=folders, limit=either, limit_cwd=folders)
@example(own=writes("w"), cwd="w/a", limit=writes("w/a"), limit_cwd="w/.git")
@example(own=writes("w"), cwd="w/.git", limit=writes(), limit_cwd="w/.git")
@example(own=writes(), cwd="w/.git", limit=writes("w"), limit_cwd="w/.git")
@example(own=of_rules(READS_WORK), cwd="other", limit=of_rules(DENIES_WORK_BY_NAME), limit_cwd="other")
def test_nothing_can_be_written_or_reached_that_the_limit_forbids(
    tree: str, own: SandboxPolicy, cwd: str, limit: SandboxPolicy, limit_cwd: str
) -> None:
    own, limit = placed(own, tree), placed(limit, tree)
    cwd, limit_cwd = f"{tree}/{cwd}", f"{tree}/{limit_cwd}"
    env = {"TMPDIR": f"{tree}/other/deep", "HOME": tree}
    result = narrowed_sandbox(own, cwd, limit, limit_cwd)
    inner = boundary_of(result, cwd=cwd, env=env, home="")
    for policy, place in ((own, cwd), (limit, limit_cwd)):
        outer = boundary_of(policy, cwd=place, env=env, home="")
        assert outer.has_network or not inner.has_network
        for name in (*FOLDERS, "w/x", "w/a/x", "w/a/b/x", "w/.git/x", "other/x", "other/deep/x", "link/x", "x"):
            path = f"{tree}/{name}"
            assert outer.may_write(path) or not inner.may_write(path), (path, result)
            assert limit_may_read(limit, limit_cwd, env, path) or not inner.may_read(path), (path, result)
        assert outer.may_write("/tmp/x") or not inner.may_write("/tmp/x")
        assert outer.is_full_access or not inner.is_full_access
    # Nothing is left to take away.
    assert narrowed_sandbox(result, cwd, limit, limit_cwd) == result


def test_equal_settings_stay_as_they_are(tmp_path: Path) -> None:
    policy = SandboxPolicy(mode="workspace-write", writable_roots=("/srv/a",), network_access=True)
    same = ThreadSettings(cwd=str(tmp_path), model="m", model_provider="p", sandbox=policy)
    assert narrowed(same, same) is same


@pytest.mark.parametrize("own", APPROVAL_POLICIES)
@pytest.mark.parametrize("limit", APPROVAL_POLICIES)
def test_of_two_approval_policies_the_one_that_asks_more_holds(own: str, limit: str) -> None:
    def of(policy: str) -> ThreadSettings:
        return ThreadSettings(cwd=os.getcwd(), model="m", model_provider="p", approval_policy=policy)  # type: ignore[arg-type]

    stricter = min(own, limit, key=STRICT_TO_LOOSE.index)
    assert narrowed(of(own), of(limit)).approval_policy == stricter


def test_a_folder_that_the_limit_does_not_write_makes_it_read_only(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    result = narrowed_sandbox(policy, str(tmp_path / "here"), policy, str(tmp_path / "there"))
    assert result.mode == "read-only"


def test_what_only_a_dropped_root_kept_read_only_is_not_set_free(tmp_path: Path) -> None:
    for name in ("home/repo/.git/worktrees/x", "worktree"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "worktree" / ".git").write_text(f"gitdir: {tmp_path}/home/repo/.git/worktrees/x\n")
    own = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    limit = SandboxPolicy(mode="workspace-write", writable_roots=(str(tmp_path / "worktree"),), exclude_slash_tmp=True)
    home = str(tmp_path / "home")
    hooks = f"{home}/repo/.git/worktrees/x/hooks"
    assert not boundary_of(limit, cwd=home, env={}, home="").may_write(hooks)
    result = narrowed_sandbox(own, home, limit, home)
    assert not boundary_of(result, cwd=home, env={}, home="").may_write(hooks)


@pytest.mark.parametrize(
    ("own", "limit", "expected"),
    [
        (None, None, None),
        (Granular(rules=True), None, Granular(rules=True)),
        (None, Granular(rules=True), Granular(rules=True)),
        (Granular(rules=True), Granular(mcp_elicitations=True), Granular()),
    ],
)
def test_what_one_of_them_does_not_let_be_asked_is_not_asked(
    own: Granular | None, limit: Granular | None, expected: Granular | None
) -> None:
    one, other = (
        ThreadSettings(cwd="/", model="m", model_provider="p", granular=granular) for granular in (own, limit)
    )
    assert narrowed(one, other).granular == expected
