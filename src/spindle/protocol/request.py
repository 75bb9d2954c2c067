"""One request to a model: what is asked, in the words of the Responses API, whatever the wire that carries it."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.items import Item, decode_json, encode_json
from spindle.protocol.provenance import ModelOrigin


class VisibleItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item of the thread as a model is shown it. The same object in every request that shows it."""

    item: Item
    """In the form in which a Responses server takes it. Never changed."""
    raw: bytes
    """Its JSON, serialised once."""
    origin: ModelOrigin | None = None
    """Which model made it, where that is known; None for what people, tools and the program said."""
    opaque: dict[str, Any] | None = None
    """What its own wire keeps beside it. Here only if this request goes to where it came from: else it is left out,
    as the opaque parts of the item itself are."""

    @classmethod
    def of(cls, item: Item, origin: ModelOrigin | None = None, opaque: dict[str, Any] | None = None) -> VisibleItem:
        return cls(item=item, raw=encode_json(item), origin=origin, opaque=opaque)


class VisibleItems(list[VisibleItem]):
    """A list of them, never changed, and beside it their JSON: taking that out of each item anew for every request
    would cost more the longer a thread is."""

    __slots__ = ("raws",)

    def __init__(self, items: list[VisibleItem], raws: list[bytes]) -> None:
        super().__init__(items)
        self.raws = raws


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the model that is asked, where a wire wants to know more than a Responses server is told."""

    is_known: bool = False
    """The catalogue has a row for it."""
    effort: str | None = None
    """How hard it is to think: configured, or the catalogue's default."""
    max_output_tokens: int | None = None
    """`model_max_output_tokens`, where the user has set it."""
    output_limit: int | None = None
    """How much it can write, by the catalogue."""
    window: int | None = None
    """How much it can read and write together, in tokens."""
    thinking: str | None = None
    """How its thinking is asked for on Messages: `adaptive`, `enabled` or, where nothing is known, None."""
    is_small: bool = False
    """It has the profile of small models."""
    capabilities: dict[str, bool] = {}
    """What the catalogue says that a server of it can or cannot do; see `model/capabilities.py`."""

    @property
    def is_unproven(self) -> bool:
        """It may write calls as text, or go round in circles: small models do, and those nobody knows may be small."""
        return self.is_small or not self.is_known


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A sample's question. Each wire encodes it in its own way; `encode` is that of the Responses API."""

    model: str
    instructions: bytes
    """The base text as a JSON string."""
    items: list[VisibleItem]
    """The thread, as far as the model is shown it. Every call is followed by exactly one output."""
    tools: bytes
    """The tool list as a JSON array, the same bytes for the whole thread."""
    tool_choice: str = "auto"
    parallel_tool_calls: bool | None = True
    """None = not said, for servers that do not want to hear of it."""
    reasoning: dict[str, str] | None = None
    store: bool = False
    include: tuple[str, ...] = ()
    prompt_cache_key: str
    text: dict[str, Any] | None = None
    """`verbosity`, and the output schema as `format` = `{"type", "strict", "schema", "name"}`."""
    service_tier: str | None = None
    facts: ModelFacts = ModelFacts()

    @property
    def input(self) -> list[bytes]:
        """The items as JSON, in the form of the Responses API. Never changed."""
        items = self.items
        return items.raws if isinstance(items, VisibleItems) else [item.raw for item in items]

    def encode(self) -> bytes:
        """The body for the Responses endpoint. Equal requests give equal bytes."""
        head, rest = self.frame()
        return head + b",".join(self.input) + rest

    def to_dict(self) -> dict[str, Any]:
        """The same body as a mapping."""
        return decode_json(self.encode())

    def frame(self) -> tuple[bytes, bytes]:
        """What stands before the first and after the last item of the input."""
        tail: dict[str, Any] = {
            "tool_choice": self.tool_choice,
            **({} if self.parallel_tool_calls is None else {"parallel_tool_calls": self.parallel_tool_calls}),
            "reasoning": self.reasoning,
            "store": self.store,
            "stream": True,
            "include": self.include,
            "prompt_cache_key": self.prompt_cache_key,
        }
        if self.text:
            tail["text"] = self.text
        if self.service_tier:
            tail["service_tier"] = self.service_tier
        head = b'{"model":%s,"instructions":%s,"input":[' % (encode_json(self.model), self.instructions)
        return head, b'],"tools":%s,%s' % (self.tools, encode_json(tail)[1:])


class LongPrompt(msgspec.Struct, frozen=True):
    """What a request costs more if its input is long: the whole of it, not only what is above the limit."""

    above: int
    """From how many tokens of input on, that number not included."""
    input: float = 1.0
    """How many times as much all input costs then, cached or not."""
    output: float = 1.0


class Prices(msgspec.Struct, frozen=True):
    """What a model's tokens cost, in any unit: only the ratios count. The defaults are what is usual."""

    input: float = 1.0
    cached_input: float | None = None
    """None = a tenth of `input`."""
    output: float | None = None
    """None = eight times `input`."""
    cache_write: float | None = None
    """What input costs that is put into the cache; None = as any other."""
    long_prompt: LongPrompt | msgspec.UnsetType = msgspec.UNSET
    """Some models are dearer for long prompts."""
    priority: float | msgspec.UnsetType = msgspec.UNSET
    """How many times as much everything costs with the faster service tier."""

    def __post_init__(self) -> None:
        if self.cached_input is None:
            msgspec.structs.force_setattr(self, "cached_input", self.input / 10)
        if self.output is None:
            msgspec.structs.force_setattr(self, "output", self.input * 8)
        if self.input < 0 or self.output_share < 0 or not 0 <= (self.cached_input or 0.0) <= self.fresh:
            raise ValueError("prices must not be negative, and cached input must not cost more than input")

    def at_tier(self, tier: str | None) -> Prices | None:
        """What the same tokens cost with a service tier; None when nobody says. Slower ones cost no more."""
        if tier not in FAST_TIERS:
            return self
        if self.priority is msgspec.UNSET:
            return None
        times = self.priority
        dearer = {name: price * times for name in _PRICES if (price := getattr(self, name)) is not None}
        return msgspec.structs.replace(self, **dearer, priority=1.0)

    @property
    def fresh(self) -> float:
        """A token that is sent for the first time; all of them go into the cache."""
        return max(self.input, self.cache_write or 0.0)

    @property
    def cached_share(self) -> float:
        """A cached token in the price of a fresh one."""
        return (self.cached_input or 0.0) / self.fresh if self.fresh else 1.0

    @property
    def output_share(self) -> float:
        """A token of output in the price of a fresh one."""
        return (self.output or 0.0) / self.fresh if self.fresh else 8.0

    def cost_of(self, usage: TokenUsage) -> float:
        """What these tokens cost, in the unit of the prices times one token; of one request or of many."""
        given, made = self._costs(usage)
        return given + made

    def cost_of_request(self, usage: TokenUsage) -> float:
        """The same for the tokens of one request, which may be dearer because it is long."""
        given, made = self._costs(usage)
        long = self.long_prompt
        if long is msgspec.UNSET or usage.input_tokens <= long.above:
            return given + made
        return given * long.input + made * long.output

    def _costs(self, usage: TokenUsage) -> tuple[float, float]:
        """Of the input and of the output. A server that claims more from its cache than there was is not believed."""
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        written = min(usage.cache_write_input_tokens, usage.input_tokens - cached)
        fresh = usage.input_tokens - cached - written
        # Servers that say what they put into their cache charge for that; without a price it is what is usual.
        write = WRITE_FACTOR * self.input if self.cache_write is None else self.cache_write
        given = fresh * self.input + cached * (self.cached_input or 0.0) + written * write
        return given, usage.output_tokens * (self.output or 0.0)


FAST_TIERS = ("priority", "fast")
_PRICES = ("input", "cached_input", "output", "cache_write")
WRITE_FACTOR = 1.25
"""What is written to a cache, in the price of input, where nobody names another."""


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What one response, or a whole thread, cost."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0
    estimated: bool = False
    """The server did not count: the numbers are guesses from the bytes that were sent and came."""

    def to_dict(self) -> dict[str, Any]:
        """As events and records hold it: whether it is estimated is said only if it is."""
        counts = msgspec.to_builtins(self)
        if not self.estimated:
            del counts["estimated"]
        return counts

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_input_tokens=self.cache_write_input_tokens + other.cache_write_input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_output_tokens=self.reasoning_output_tokens + other.reasoning_output_tokens,
            total_tokens=self.total_tokens + other.total_tokens,
            estimated=self.estimated or other.estimated,
        )
