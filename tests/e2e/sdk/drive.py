"""A program that uses the official Python SDK: a turn with deltas, one with an approval, one that is interrupted; then
the thread is opened again without its turns.

Run with the SDK on the path; prints what it saw as one line of JSON. The argument is the job: the agent, its folder.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from openai_codex import CodexConfig  # pyright: ignore[reportMissingImports]
from openai_codex.client import CodexClient  # pyright: ignore[reportMissingImports]
from openai_codex.generated.notification_registry import NOTIFICATION_MODELS  # pyright: ignore[reportMissingImports]
from openai_codex.models import Notification, UnknownNotification  # pyright: ignore[reportMissingImports]

asked: list[str] = []
misread: list[str] = []
"""Notifications that the SDK knows by name, but whose shape it did not understand."""


def approve(method: str, params: Any) -> Any:
    asked.append(method)
    return {"decision": "accept"}


class Client(CodexClient):
    """The SDK takes what it does not understand for something new; here it is noted."""

    def _coerce_notification(self, method: str, params: object) -> Notification:
        notification = super()._coerce_notification(method, params)
        if method in NOTIFICATION_MODELS and isinstance(notification.payload, UnknownNotification):
            misread.append(method)
        return notification


def run(client: CodexClient, thread_id: str, text: str, *, interrupt: bool = False) -> dict[str, Any]:
    """One turn to its end."""
    turn_id = client.turn_start(thread_id, text).turn.id
    client.register_turn_notifications(turn_id)
    deltas: list[str] = []
    items: list[str] = []
    while (notification := client.next_turn_notification(turn_id)).method != "turn/completed":
        payload: Any = notification.payload
        if notification.method == "item/agentMessage/delta":
            deltas.append(payload.delta)
            if interrupt and len(deltas) == 1:
                client.turn_interrupt(thread_id, turn_id)
        if notification.method == "item/completed":
            items.append(payload.item.root.type)
    client.unregister_turn_notifications(turn_id)
    return {"deltas": deltas, "items": items, "status": notification.payload.turn.status.value}


def main() -> None:
    job = json.loads(sys.argv[1])
    config = CodexConfig(codex_bin=job["agent"], cwd=job["cwd"])
    with Client(config, approval_handler=approve) as client:
        client.initialize()
        started = client.thread_start({"approvalPolicy": "untrusted", "sandbox": "danger-full-access"})
        turns = [
            run(client, started.thread.id, "say hello"),
            run(client, started.thread.id, "make a file"),
            run(client, started.thread.id, "talk on", interrupt=True),
        ]
        read = client.thread_read(started.thread.id, include_turns=True)
        kept = [turn.status.value for turn in read.thread.turns]
        # The SDK sends this only to a server whose version, or whose schema, says that it is understood.
        opened = [
            again(started.thread.id, {"excludeTurns": True}) for again in (client.thread_resume, client.thread_fork)
        ]
        lengths = [len(one.thread.turns) for one in opened]
    print(json.dumps({"turns": turns, "kept": kept, "lengths": lengths, "asked": asked, "misread": misread}))


main()
