"""The kept body always is what the request alone would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spindle.model.body import GrowingBody
from spindle.protocol.request import Request, VisibleItem


def request(items: list[bytes], model: str = "m", text: dict[str, str] | None = None) -> Request:
    return Request(
        model=model,
        instructions=b'"i"',
        items=[VisibleItem(item={}, raw=raw) for raw in items],
        tools=b"[]",
        prompt_cache_key="t",
        text=text,
    )


item = st.sampled_from([b'{"a":1}', b'{"b":"\xc3\xa9"}', b"{}"])


@given(
    st.lists(
        st.tuples(st.lists(item, max_size=6), st.booleans(), st.sampled_from("mn"), st.booleans()),
        min_size=1,
        max_size=8,
    )
)
def test_growing_shrinking_and_changing_inputs_give_the_same_bytes(
    steps: list[tuple[list[bytes], bool, str, bool]],
) -> None:
    body = GrowingBody()
    items: list[bytes] = []
    for new, grows, model, has_text in steps:
        items = [*items, *new] if grows else new
        asked = request(items, model, {"verbosity": "low"} if has_text else None)
        assert bytes(body.encode(asked)) == asked.encode()


def test_a_longer_input_is_appended_to_the_same_buffer() -> None:
    body = GrowingBody()
    first = body.encode(request([b"{}"]))
    assert body.encode(request([b"{}", b'{"a":1}'])) is first


def test_a_body_that_is_still_being_sent_is_left_alone() -> None:
    body = GrowingBody()
    sending = memoryview(body.encode(request([b"{}"])))
    before = bytes(sending)
    asked = request([b"{}", b'{"a":1}'])
    assert bytes(body.encode(asked)) == asked.encode()
    assert bytes(sending) == before
