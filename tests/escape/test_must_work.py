"""Ordinary development does not notice the fence: what works bare works inside, by every way of running a command.

| way                                        | user                      | mode                    | work             |
|--------------------------------------------|---------------------------|-------------------------|------------------|
| `spindle sandbox`                          | root and an ordinary user | workspace-write         | all              |
| `spindle sandbox`                          | root and an ordinary user | read-only               | all it may do    |
| `spindle sandbox`                          | root and an ordinary user | workspace-write+network | a quarter        |
| exec_command, terminal, shell,             | one of the two each       | workspace-write         | a third of what  |
| shell_command, typed, hook                 |                           |                         | is quick         |
| bare, to explain a failure                 |                           | –                       | all              |

With ESCAPE_EVERYTHING=1 in the environment, all work is done all seven ways as both users in all modes.
"""

from __future__ import annotations

import os

import pytest

from escape.case import MODES, WORKS
from escape.drive import AGENT_WAYS, PATIENCE_S, Battery, combinations, works_of

USERS = ("root", "user") if os.getuid() == 0 else ("user",)
COMBINATIONS = combinations(
    [
        *((user, mode, "sandbox") for user in USERS for mode in MODES),
        *((USERS[at % len(USERS)], "workspace-write", way) for at, way in enumerate(AGENT_WAYS)),
    ]
)


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize(
    ("user", "mode", "way", "name"),
    [
        pytest.param(user, mode, way, name, id=f"{user}-{mode}-{way}-{name}")
        for user, mode, way in COMBINATIONS
        for name in works_of(user, mode, way)
    ],
)
def test_ordinary_work_succeeds(battery: Battery, user: str, mode: str, way: str, name: str) -> None:
    if user not in battery.users:
        pytest.skip("no interpreter here that an ordinary user may run")
    done = battery.work(user, mode, way).result()
    if name not in done:
        pytest.skip(f"needs {' and '.join(WORKS[name].needs)}")
    if done[name] is not None and (why := battery.work(user, "bare", "bare").result()[name]):
        pytest.skip(f"does not work bare on this machine either: {why}")
    assert done[name] is None


def test_there_is_enough_work() -> None:
    assert len(WORKS) >= 100
