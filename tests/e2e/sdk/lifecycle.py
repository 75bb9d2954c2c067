"""A program that uses the official Python SDK as its users do: kinds of input, a steered turn, and the life of threads.

Run with the SDK on the path; prints what it saw as one line of JSON. The argument is the job: the agent, its folder,
and the files that it hands in.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import openai_codex as sdk  # pyright: ignore[reportMissingImports]


def steered(thread: Any) -> list[Any]:
    """A turn that gets more to do while it answers."""
    turn = thread.turn(sdk.TextInput("begin"))
    joined: list[bool] = []
    for event in turn.stream():
        if event.method == "item/agentMessage/delta" and not joined:
            joined.append(turn.steer(sdk.TextInput("and more")).turn_id == turn.id)
    return joined


async def lives(config: Any) -> dict[str, Any]:
    """A thread from its name to the archive and back, with the asynchronous client."""
    async with sdk.AsyncCodex(config=config) as codex:
        thread = await codex.thread_start(approval_mode=sdk.ApprovalMode.deny_all)
        answer = (await thread.run("hello")).final_response
        await thread.set_name("named")
        name = (await thread.read()).thread.name
        resumed, forked = await codex.thread_resume(thread.id), await codex.thread_fork(thread.id)
        await codex.thread_archive(thread.id)
        listed = [entry.id for entry in (await codex.thread_list(archived=True)).data]
        back = await codex.thread_unarchive(thread.id)
    ids = [resumed.id == thread.id, forked.id != thread.id, listed == [thread.id], back.id == thread.id]
    return {"answer": answer, "name": name, "ids": ids}


def main() -> None:
    job = json.loads(sys.argv[1])
    config = sdk.CodexConfig(codex_bin=job["agent"], cwd=job["cwd"])
    with sdk.Codex(config=config) as codex:
        inputs = [sdk.TextInput("look"), sdk.LocalImageInput(job["image"]), sdk.SkillInput("demo", job["skill"])]
        thread = codex.thread_start()
        looked = thread.run(inputs, turn_service_tier="flex", source="automation")
        joined = steered(thread)
        read = thread.read(include_turns=True).thread.turns
        try:
            thread.run("fail")
            failed = ""
        except RuntimeError as error:
            failed = str(error)
    seen = {
        "looked": [looked.final_response, looked.status.value, looked.usage.last.total_tokens],
        "joined": joined,
        "items": [[item.root.type for item in turn.items] for turn in read],
        "failed": failed,
        "lives": asyncio.run(lives(config)),
    }
    print(json.dumps(seen))


main()
