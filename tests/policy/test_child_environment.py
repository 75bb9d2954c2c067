"""What a command finds in its environment."""

from __future__ import annotations

import pytest

from spindle.policy.environment import FIXED, EnvironmentPolicy, child_environment, withheld_names

PARENT = {
    "HOME": "/h",
    "PATH": "/bin",
    "FOO": "1",
    "FAKE_TOKEN": "t",
    "my_key": "k",
    "OPENAI_API_KEY": "o",
    "CODEX_API_KEY": "c",
    "ACME_KEY": "a",
    "LD_PRELOAD": "evil.so",
    "LD_AUDIT": "evil.so",
    "LD_LIBRARY_PATH": "/lib",
    "DYLD_INSERT_LIBRARIES": "evil",
    "PAGER": "less",
    "SSH_AUTH_SOCK": "/run/agent",
}


def own(policy: EnvironmentPolicy, secrets: tuple[str, ...] = ("ACME_KEY",)) -> dict[str, str]:
    """Without the variables that are always set."""
    made = child_environment(PARENT, policy, secret_names=secrets)
    return {name: value for name, value in made.items() if name not in FIXED}


def test_everything_but_secrets_and_loader_tricks_is_inherited() -> None:
    assert own(EnvironmentPolicy()) == {"HOME": "/h", "PATH": "/bin", "FOO": "1", "LD_LIBRARY_PATH": "/lib"}


def test_the_agents_own_keys_and_sockets_stay_with_it_even_if_all_others_are_wanted() -> None:
    assert own(EnvironmentPolicy(ignore_default_excludes=True)) == {
        "HOME": "/h",
        "PATH": "/bin",
        "FOO": "1",
        "FAKE_TOKEN": "t",
        "my_key": "k",
        "LD_LIBRARY_PATH": "/lib",
    }


def test_what_the_user_names_is_inherited() -> None:
    named = ("HOME", "SSH_AUTH_SOCK", "my_key")
    assert own(EnvironmentPolicy(include_only=named)) == {"HOME": "/h", "SSH_AUTH_SOCK": "/run/agent", "my_key": "k"}
    strict = EnvironmentPolicy(include_only=named, ignore_default_excludes=False)
    assert own(strict) == {"HOME": "/h", "SSH_AUTH_SOCK": "/run/agent"}
    assert own(EnvironmentPolicy(inherit="none", set={"SSH_AUTH_SOCK": "/mine"})) == {"SSH_AUTH_SOCK": "/mine"}


def test_names_that_even_a_profile_cannot_hand_on() -> None:
    assert withheld_names(EnvironmentPolicy(), ("ACME_KEY",)) == {
        *("ACME_KEY", "CODEX_API_KEY", "OPENAI_API_KEY", "SSH_AUTH_SOCK"),
    }
    lenient = EnvironmentPolicy(set={"OPENAI_API_KEY": "mine"}, include_only=("SSH_*", "codex_*"))
    assert withheld_names(lenient, ("ACME_KEY",)) == {"ACME_KEY"}


def test_fixed_variables_win_over_everything() -> None:
    made = child_environment(PARENT, EnvironmentPolicy(set={"TERM": "xterm"}))
    assert {name: made[name] for name in FIXED} == FIXED


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        (EnvironmentPolicy(inherit="none"), {}),
        (EnvironmentPolicy(inherit="core"), {"HOME": "/h", "PATH": "/bin"}),
        (EnvironmentPolicy(inherit="none", set={"A": "b"}), {"A": "b"}),
        (EnvironmentPolicy(inherit="core", exclude=("h*",)), {"PATH": "/bin"}),
        (EnvironmentPolicy(include_only=("P?TH",)), {"PATH": "/bin"}),
        (EnvironmentPolicy(include_only=("ACME*",)), {"ACME_KEY": "a"}),
        (EnvironmentPolicy(inherit="none", set={"OPENAI_API_KEY": "mine"}), {"OPENAI_API_KEY": "mine"}),
        (
            EnvironmentPolicy(ignore_default_excludes=False),
            {"HOME": "/h", "PATH": "/bin", "FOO": "1", "LD_LIBRARY_PATH": "/lib"},
        ),
    ],
)
def test_the_steps_of_the_policy(policy: EnvironmentPolicy, left: dict[str, str]) -> None:
    assert own(policy) == left


def test_children_without_network_are_told_so() -> None:
    assert child_environment({}, EnvironmentPolicy(), network=False) == {**FIXED, "CODEX_SANDBOX_NETWORK_DISABLED": "1"}


def test_a_person_keeps_colours_pager_and_language_and_loses_keys_all_the_same() -> None:
    parent = {"TERM": "xterm", "PAGER": "less", "LANG": "de_DE.UTF-8", "OPENAI_API_KEY": "k", "LD_PRELOAD": "/x.so"}
    kept = child_environment(parent, EnvironmentPolicy(), for_person=True)
    assert kept == {"TERM": "xterm", "PAGER": "less", "LANG": "de_DE.UTF-8"}
