"""Questions to a client, and the ops that its answers become. Pure."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from spindle.frontends.app_server import server_requests as asks
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.server_requests import Ask
from spindle.protocol.ops import DynamicToolResponse, Op, UserInputAnswer
from spindle.protocol.questions import DynamicToolCallRequest, RequestUserInput

Reply = Wire | None
"""A client's answer; None when there is none, or when it cannot be understood."""


class Put(msgspec.Struct, frozen=True):
    """A question, and how its answer is read: the op for the session, and whether it is a no."""

    ask: Ask
    read: Callable[[Reply], tuple[Op, bool]]


def user_input_put(msg: RequestUserInput, thread_id: str) -> Put:
    """The model asks a person. Without an answer it hears that there is none, and goes on."""

    def read(reply: Reply) -> tuple[Op, bool]:
        answers = reply.answers if isinstance(reply, asks.UserInputReply) else {}
        said = {question: {"answers": answer.answers} for question, answer in answers.items()}
        return UserInputAnswer(id=msg.call_id, response={"answers": said}), False

    ask = asks.RequestUserInput(thread_id=thread_id, turn_id=msg.turn_id, item_id=msg.call_id, questions=msg.questions)
    return Put(ask, read)


def tool_put(msg: DynamicToolCallRequest, thread_id: str) -> Put:
    """The model calls a tool that the client brought along."""

    def read(reply: Reply) -> tuple[Op, bool]:
        answer = msgspec.to_builtins(reply) if isinstance(reply, asks.DynamicToolReply) else {"success": False}
        return DynamicToolResponse(id=msg.call_id, response=answer), False

    ask = asks.DynamicToolCall(
        thread_id=thread_id,
        turn_id=msg.turn_id,
        call_id=msg.call_id,
        namespace=msg.namespace,
        tool=msg.tool,
        arguments=msg.arguments,
    )
    return Put(ask, read)
