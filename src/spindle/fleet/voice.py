"""What a worker that works says to the driver, and what follows from it; the same for every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from spindle.fleet.engine import Answers, Ended, Event, Files, Started
from spindle.fleet.exchange import Lease, Refusal
from spindle.fleet.worker import Began, Over
from spindle.fleet.worker_messages import Ask, GiveBack, Settle, ToDriver


class Voice:
    """One worker, heard by the driver."""

    def __init__(
        self,
        worker: str,
        events: asyncio.Queue[Event],
        answers: Answers,
        say: Callable[[Lease | Refusal], None],
        on_over: Callable[[Over], None],
    ) -> None:
        self._worker = worker
        self._events = events
        self._answers = answers
        self._say = say
        self._on_over = on_over
        self._leasing: set[asyncio.Task[None]] = set()

    def hear(self, message: ToDriver) -> None:
        match message:
            case Began():
                self._events.put_nowait(Started(worker=self._worker, task=message.task, attempt=message.attempt))
            case Over():
                self._on_over(message)
            case Ask():
                task = asyncio.create_task(self._lease(message))
                self._leasing.add(task)
                task.add_done_callback(self._leasing.discard)
            case Settle():
                self._answers.settle(self._worker, message.number, message.asked_tokens, message.spent)
            case GiveBack():
                self._answers.give_back(self._worker, message.number, message.count)
            case _:
                pass  # that it is there, and who it is: the engine's business

    def ended(self, over: Over, files: Files) -> None:
        """An attempt is over, and its files are the driver's."""
        self._events.put_nowait(
            Ended(
                worker=self._worker,
                task=over.task,
                attempt=over.attempt,
                outcome=over.outcome,
                files=files,
                memory=over.memory,
            )
        )

    async def _lease(self, message: Ask) -> None:
        self._say(await self._answers.lease(self._worker, message.number, message.asking))

    def close(self) -> None:
        """It is gone: nobody waits for leave any more."""
        for task in self._leasing:
            if task is not asyncio.current_task():
                task.cancel()
