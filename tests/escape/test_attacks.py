"""Every attack is blocked, by every way of running a command; and every attack is real: bare, it succeeds.

| way                                  | user                      | modes           | attacks |
|--------------------------------------|---------------------------|-----------------|---------|
| `spindle sandbox`                    | root and an ordinary user | all three       | all     |
| exec_command, terminal, shell,       | root, if the tests run    | workspace-write | all     |
| shell_command, typed, hook           | as root                   |                 |         |
| the same                             | the ordinary user         | workspace-write | a third |
| hook                                 | the ordinary user         | the other two   | a third |
| bare (control)                       | root and an ordinary user | –               | all     |

With ESCAPE_EVERYTHING=1 in the environment, all attacks go all seven ways as both users in all modes.

An attack without a control says why (`no_control`): it may not be made by this user at all, or must not be.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from escape.arena import KINDS
from escape.case import ATTACKS, MODES
from escape.drive import AGENT_WAYS, PATIENCE_S, Battery, attacks_of, combinations

USERS = ("root", "user") if os.getuid() == 0 else ("user",)
COMBINATIONS = combinations(
    [
        *((user, mode, "sandbox") for user in USERS for mode in MODES),
        *((user, "workspace-write", way) for user in USERS for way in AGENT_WAYS),
        *((USERS[-1], mode, "hook") for mode in MODES if mode != "workspace-write"),
    ]
)
NO_USER = "no interpreter here that an ordinary user may run"


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize(
    ("user", "mode", "way", "name"),
    [
        pytest.param(user, mode, way, name, id=f"{user}-{mode}-{way}-{name}")
        for user, mode, way in COMBINATIONS
        for name in attacks_of(user, mode, way)
    ],
)
def test_an_attack_is_blocked(battery: Battery, user: str, mode: str, way: str, name: str) -> None:
    if user not in battery.users:
        pytest.skip(NO_USER)
    outcome = battery.attack(user, mode, way).result()
    assert name in outcome.ran, outcome.printed[-2000:]
    assert outcome.broken.get(name) is None
    assert outcome.evidence[name] is None


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize(
    ("user", "name"),
    [
        pytest.param(user, one.name, id=f"{user}-{one.name}")
        for user in USERS
        for one in ATTACKS.values()
        if one.arena in KINDS and user in one.users and user not in one.no_control
    ],
)
def test_an_attack_succeeds_when_nothing_holds_it_back(battery: Battery, user: str, name: str) -> None:
    if user not in battery.users:
        pytest.skip(NO_USER)
    if name in NEEDS_NETWORK and not has_network():
        pytest.skip("this machine has no network that an attack could find")
    assert battery.control(user).result()[name] is not None


NEEDS_NETWORK = ("finds_an_interface_other_than_loopback", "finds_a_route_to_somewhere")


def has_network() -> bool:
    routes = Path("/proc/net/route").read_text().splitlines()[1:]
    return bool(routes) and any(name != "lo" for _, name in socket.if_nameindex())


def test_there_are_enough_attacks_and_most_have_a_control() -> None:
    assert len(ATTACKS) >= 250
    assert sum(1 for one in ATTACKS.values() if len(one.no_control) == 2) <= 32
