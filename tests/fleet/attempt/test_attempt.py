"""How an attempt ends, and what it leaves."""

from __future__ import annotations

import json

from fleet_attempts import Fleet, runs

from fake_server import message, turn


async def test_an_attempt_gives_a_patch_a_message_and_what_it_cost(fleet: Fleet) -> None:
    fleet.server.script(*runs("echo 1 > new.txt"))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert outcome.final_message == "done"
    assert fleet.file(outcome, "final.md") == b"done\n"
    assert (fleet.applied(outcome) / "new.txt").read_text() == "1\n"
    first = json.loads(fleet.file(outcome, "rollout.jsonl").split(b"\n")[0])
    assert first["payload"]["id"] == outcome.thread_id
    assert outcome.used.requests == 2
    assert fleet.left() == []
