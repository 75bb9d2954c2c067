"""What a request and its answer cost, guessed, where the server does not count."""

from __future__ import annotations

from spindle.context.tokens import tokens_of_bytes
from spindle.protocol.request import TokenUsage


def estimated_usage(sent_bytes: int, answer_bytes: int) -> TokenUsage:
    inputs, outputs = tokens_of_bytes(sent_bytes), tokens_of_bytes(answer_bytes)
    return TokenUsage(input_tokens=inputs, output_tokens=outputs, total_tokens=inputs + outputs, estimated=True)
