"""What is known about each model: its window, its habits, which tools it was trained on.

The bundled table is `catalog.json`; a user's file of the same shape replaces it, and `[spindle.models.SLUG]` of the
configuration changes single rows. Texts for the model are `prompt`'s.
"""

# Annotations are types here, not texts as elsewhere: the catalogue is read at every start, and to read it each text
# would have to be compiled first.

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from spindle.context.truncate import Truncation
from spindle.errors import ConfigError
from spindle.protocol.items import json_reader
from spindle.protocol.request import Prices

LEVEL_DESCRIPTIONS = {
    "none": "No thinking before the answer",
    "minimal": "As little thinking as possible",
    "low": "Quick answers for simple tasks",
    "medium": "A balance of speed and depth for everyday work",
    "high": "More depth for hard problems",
    "xhigh": "Great depth for very hard problems",
    "max": "The greatest depth, for the hardest problems",
    "ultra": "The greatest depth, with parts of the work given to helpers",
}


INSIDE = "inside"
"""The base text for models that Spindle runs itself: they are smaller still."""
SMALL = "small"
"""The profile of models that need short instructions and few tools."""
SMALL_OUTPUT_BYTES = 6_000
"""How much of a tool's output a small model is shown, at most."""
SMALL_MODEL_BILLIONS = 24
"""Models that name a size up to this many billion parameters get the short base text."""


class ReasoningLevel(msgspec.Struct, frozen=True):
    """One reasoning effort a model offers."""

    effort: str
    description: str = ""

    def __post_init__(self) -> None:
        if not self.description:
            msgspec.structs.force_setattr(self, "description", LEVEL_DESCRIPTIONS.get(self.effort, self.effort))


class ServiceTier(msgspec.Struct, frozen=True):
    """A way to be served that can be asked for by `service_tier`."""

    id: str
    name: str = ""
    description: str = ""


class ModelMessages(msgspec.Struct, frozen=True):
    """A base text with a place for the personality, as some catalogues carry it."""

    instructions_template: str | None = None
    instructions_variables: dict[str, str | None] | None = None


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the catalogue. Unknown fields of a file are ignored."""

    slug: str
    display_name: str = ""
    description: str | None = None
    family: str = ""
    """Which base text fits: "codex", "gpt", "small", "tiny" or "default". Told from the slug when not given."""
    provider: str = "openai"
    """Whose model it is: the provider under whose name it is listed."""
    default_reasoning_level: str | None = None
    supported_reasoning_levels: tuple[ReasoningLevel, ...] = ()
    shell_type: str = "default"
    visibility: str = "hide"
    supported_in_api: bool = True
    priority: int = 99
    """Lower comes first in lists."""
    upgrade: str | dict[str, object] | None = None
    base_instructions: str | None = None
    model_messages: ModelMessages | None = None
    supports_reasoning_summaries: bool = False
    support_verbosity: bool = False
    default_verbosity: str | None = None
    apply_patch_tool_type: str | None = None
    truncation_policy: Truncation = Truncation()
    supports_parallel_tool_calls: bool = False
    context_window: int | None = 272_000
    auto_compact_token_limit: int | None = None
    effective_context_window_percent: int = 95
    max_output_tokens: int | None = None
    """How much it can write in one answer."""
    thinking: str | None = None
    """How its thinking is asked for on Messages: `adaptive` (newer models), `enabled` (older ones), None = not at
    all."""
    profile: str | None = None
    """`small` for models that need short instructions and few tools."""
    capabilities: dict[str, bool] = {}
    """What servers of it can or cannot do, by the names of `capabilities.py`, where that is not as usual."""
    experimental_supported_tools: tuple[str, ...] = ()
    input_modalities: tuple[str, ...] = ("text", "image")
    additional_speed_tiers: tuple[str, ...] = ()
    service_tiers: tuple[ServiceTier, ...] = ()
    default_service_tier: str | None = None
    """Listed for clients; a request asks for a tier only when the user does."""
    multi_agent_version: str | None = None
    model_specialty: str | None = None
    prices: Prices | None = None
    """What its tokens cost, in US dollars for a million; catalogues of the reference program do not say."""
    known: bool = True
    """False when the catalogue has no row for the slug and the fallback stands in."""

    def __post_init__(self) -> None:
        if not self.family:
            msgspec.structs.force_setattr(self, "family", family_of(self.slug))
        if not self.display_name:
            msgspec.structs.force_setattr(self, "display_name", self.slug)

    @property
    def compact_limit(self) -> int | None:
        """A thread that holds this many tokens is compacted."""
        if self.auto_compact_token_limit is not None:
            return self.auto_compact_token_limit
        return None if self.context_window is None else self.context_window * 9 // 10


def unknown_model(slug: str) -> str:
    """What people are told of a model that has no row."""
    return f"model {slug} is not in the catalogue; general defaults are used for it"


def family_of(slug: str) -> str:
    """The kind of base text that fits a model, by its name."""
    name = slug.rpartition("/")[2].lower()
    size = _size_in_billions(name)
    if name.startswith("gpt-oss") or (size is not None and size <= SMALL_MODEL_BILLIONS):
        return "small"
    if "codex" in name:
        return "codex"
    if name.startswith("gpt-") or (name.startswith("o") and name[1:2].isdigit()):
        return "gpt"
    return "default"


def _size_in_billions(name: str) -> float | None:
    """The size in names like `llama3:8b`, `qwen2.5-coder-1.5b` or `gpt-oss:20b`."""
    for word in name.replace(":", "-").replace("_", "-").split("-"):
        digits = word.removesuffix("b")
        if digits != word and digits.replace(".", "", 1).isdigit():
            return float(digits)
    return None


def as_small(info: ModelInfo) -> ModelInfo:
    """The row with the profile of small models: a short base text, few tools, little output."""
    return msgspec.structs.replace(
        info,
        profile=SMALL,
        family=info.family if info.family == INSIDE else "tiny",
        apply_patch_tool_type="function",
        experimental_supported_tools=("grep_files", "read_file"),
        truncation_policy=Truncation("bytes", min(info.truncation_policy.byte_limit, SMALL_OUTPUT_BYTES)),
    )


class _CatalogFile(msgspec.Struct):
    models: list[ModelInfo]


def changed_row(slug: str, found: ModelInfo | None, fields: Mapping[str, Any]) -> ModelInfo:
    """The row for `slug` with the user's `fields` in place of those of the row `found` for it so far.

    Raises `msgspec.ValidationError` when a field cannot be what it is said to be.
    """
    is_new = found is None or not found.known
    row: dict[str, Any] = {"slug": slug} if found is None else msgspec.to_builtins(found)
    # Whoever describes a model wants to be offered it, behind those that everybody has.
    ours = {"visibility": "list", "priority": 98} if is_new else {}
    return msgspec.convert({**row, **ours, **fields, "slug": slug, "known": True}, ModelInfo)


class Catalog:
    """The rows, and how a slug finds its own."""

    _bundled: "Catalog | None" = None
    """Read once: it is part of the program, and the threads of a process can share it."""

    def __init__(self, models: list[ModelInfo]) -> None:
        self.models = sorted(models, key=lambda model: model.priority)
        self._takes_for_small: Callable[[ModelInfo], bool] = lambda info: False

    def taking_for_small(self, is_small: Callable[[ModelInfo], bool]) -> "Catalog":
        """The same rows; a model of which `is_small` says so has the profile of small models, whatever its row says."""
        other = Catalog(self.models)
        other._takes_for_small = is_small
        return other

    @classmethod
    def load(cls, path: str | None = None, changes: Mapping[str, Mapping[str, Any]] | None = None) -> "Catalog":
        """The bundled catalogue, or the file that `model_catalog_json` names. Raises `ConfigError`.

        `changes` are the user's: for each slug the fields that differ.
        """
        if changes:
            catalog = cls.load(path)
            rows = {model.slug: model for model in catalog.models}
            for slug, fields in changes.items():
                rows[slug] = changed_row(slug, catalog._row(slug), fields)
            return cls(list(rows.values()))
        if path is None and cls._bundled is not None:
            return cls._bundled
        source = path or f"{os.path.dirname(__file__)}/catalog.json"
        try:
            with open(source, "rb") as file:
                models = json_reader(_CatalogFile)(file.read()).models
        except OSError as error:
            raise ConfigError(f"cannot read the model catalogue {source}: {error.strerror or error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{source} is not a model catalogue: {error}") from error
        if not models:
            raise ConfigError(f"{source} is not a model catalogue: it lists no models")
        catalog = cls(models)
        if path is None:
            cls._bundled = catalog
        return catalog

    def with_row(self, info: ModelInfo) -> "Catalog":
        """The same catalogue, in which this is what is known of the model."""
        other = Catalog([*(model for model in self.models if model.slug != info.slug), info])
        other._takes_for_small = self._takes_for_small
        return other

    @property
    def listed(self) -> list[ModelInfo]:
        """Those a person is offered, best first."""
        return [model for model in self.models if model.visibility == "list"]

    @property
    def named(self) -> list[ModelInfo]:
        """Those of OpenAI there are, listed or hidden, without the rows that stand for a whole line of models."""
        return self.named_of("openai")

    def named_of(self, provider: str) -> list[ModelInfo]:
        """The same of any provider."""
        return [model for model in self.models if model.visibility != "none" and model.provider == provider]

    def offered(self, vendor: str) -> list[ModelInfo]:
        """Those a person is offered at a provider; of makers other than OpenAI all there are."""
        return (self.named_of(vendor) if vendor != "openai" else []) or self.listed

    @property
    def default_slug(self) -> str:
        return (self.listed or self.models)[0].slug

    def find(self, slug: str) -> ModelInfo:
        """The row for `slug`: the same name, else the longest one it begins with, else a cautious fallback."""
        info = self._row(slug)
        return as_small(info) if info.profile == SMALL or self._takes_for_small(info) else info

    def _row(self, slug: str) -> ModelInfo:
        best: ModelInfo | None = None
        for model in self.models:
            if model.slug == slug:
                return model
            if slug.startswith(model.slug) and (best is None or len(model.slug) > len(best.slug)):
                best = model
        if best is None:
            return ModelInfo(slug=slug, provider="", apply_patch_tool_type="function", known=False)
        return msgspec.structs.replace(best, slug=slug, display_name=slug)
