"""Who gets a key when a question comes up while somebody types."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from unittest.mock import MagicMock

import pytest

from spindle.frontends.tui.input import GUARD_S, Keyboard
from spindle.frontends.tui.screen.decoder import Decoder
from spindle.frontends.tui.views.trust import TrustView


class Stage:
    """A keyboard with a person at one end, and at the other an interface that only notes what it gets."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self.app = MagicMock()
        self.app.view = None
        self.app.showing.pager = None
        self.app.opening.is_asking_first = True
        self.app.thread = None
        self.app.composer.keymap.translated = lambda key, *contexts: key
        self.view = TrustView("/somewhere")
        self.keyboard = Keyboard(self.app, Decoder(), descriptor=self._read)
        self.keyboard.listen()

    def type(self, text: str) -> None:
        os.write(self._write, text.encode())

    def show(self) -> None:
        self.app.view = self.view
        self.keyboard.view_appeared(self.view)

    def paint(self) -> None:
        self.keyboard.view_seen(self.view)

    @property
    def draft(self) -> str:
        composer = self.app.composer
        typed = [call.args[0].text for call in composer.key.call_args_list]
        return "".join([*typed, *(call.args[0] for call in composer.paste.call_args_list)])

    def close(self) -> None:
        self.keyboard.stop()
        os.close(self._read)
        os.close(self._write)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


@pytest.mark.parametrize("typed", ["1 thing", "1 of 3 things\r"])
async def test_a_burst_that_has_not_ended_when_the_question_comes_is_no_answer(stage: Stage, typed: str) -> None:
    stage.type(typed)
    for _ in range(2):
        await asyncio.sleep(0)  # the decoder has it, and waits for more
    stage.show()
    stage.paint()
    await asyncio.sleep(0.1)
    assert not stage.view.answer.done() and stage.draft == typed.replace("\r", "\n")


async def test_a_key_that_comes_before_the_question_is_painted_is_no_answer(stage: Stage) -> None:
    stage.show()
    stage.type("1")
    await asyncio.sleep(0.01)
    stage.paint()
    stage.type("3")
    await asyncio.sleep(0.01)
    assert not stage.view.answer.done() and stage.draft == "13"
    await asyncio.sleep(GUARD_S + 0.05)
    stage.type("2")
    assert await asyncio.wait_for(stage.view.answer, 5) == "untrusted"


async def test_a_question_that_nobody_typed_ahead_of_takes_an_answer_at_once(stage: Stage) -> None:
    stage.show()
    stage.paint()
    stage.type("1")
    assert await asyncio.wait_for(stage.view.answer, 5) == "trusted" and not stage.draft
