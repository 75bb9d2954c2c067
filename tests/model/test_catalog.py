"""Which row of the catalogue a slug finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

from spindle.config.load import load_config
from spindle.config.schema import Config
from spindle.context.truncate import Truncation
from spindle.errors import ConfigError
from spindle.model.catalog import Catalog, ModelInfo, family_of
from spindle.model.provider import Provider
from spindle.protocol.request import Prices

TOKENS, BYTES = Truncation("tokens", 10_000), Truncation("bytes", 10_000)

ROWS = [
    # slug, shell, patch, parallel, reasoning, verbosity, window, truncation, family
    ("gpt-5.2-codex", "shell_command", "freeform", True, True, None, 272_000, TOKENS, "codex"),
    ("gpt-5.1-codex-max", "shell_command", "freeform", False, True, None, 272_000, TOKENS, "codex"),
    ("gpt-5.1-codex", "shell_command", "freeform", False, True, None, 272_000, TOKENS, "codex"),
    ("gpt-5.1-codex-mini", "shell_command", "freeform", False, True, None, 272_000, TOKENS, "codex"),
    ("gpt-5-codex", "shell_command", "freeform", False, True, None, 272_000, TOKENS, "codex"),
    ("codex-next", "shell_command", "freeform", False, True, None, 272_000, TOKENS, "codex"),
    ("gpt-5.2", "shell_command", "freeform", True, True, "low", 272_000, BYTES, "gpt"),
    ("gpt-5.1", "shell_command", "freeform", True, True, "low", 272_000, BYTES, "gpt"),
    ("gpt-5.5", "unified_exec", "freeform", True, True, "low", 272_000, TOKENS, "gpt"),
    ("gpt-5.3-codex", "shell_command", "freeform", True, True, "low", 272_000, TOKENS, "codex"),
    ("gpt-5.6-any", "unified_exec", "freeform", True, True, "low", 272_000, TOKENS, "gpt"),
    ("gpt-6.1-any", "unified_exec", "freeform", True, True, "low", 272_000, TOKENS, "gpt"),
    ("gpt-5", "default", None, False, True, None, 272_000, BYTES, "gpt"),
    ("gpt-5-2025-08-07", "default", None, False, True, None, 272_000, BYTES, "gpt"),
    ("o3", "default", None, False, True, None, 200_000, BYTES, "gpt"),
    ("o4-mini", "default", None, False, True, None, 200_000, BYTES, "gpt"),
    ("codex-mini-latest", "local", None, False, True, None, 200_000, BYTES, "codex"),
    ("gpt-4.1", "default", None, False, False, None, 1_047_576, BYTES, "gpt"),
    ("gpt-4o", "default", None, False, False, None, 128_000, BYTES, "gpt"),
    ("gpt-oss:20b", "default", "function", False, False, None, 96_000, BYTES, "small"),
    ("openai/gpt-oss-20b", "default", "function", False, False, None, 96_000, BYTES, "small"),
    ("qwen3-coder", "default", "function", False, False, None, 272_000, BYTES, "default"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_slug_finds_its_row(row: tuple) -> None:
    found = Catalog.load().find(row[0])
    assert row == (
        found.slug,
        found.shell_type,
        found.apply_patch_tool_type,
        found.supports_parallel_tool_calls,
        found.supports_reasoning_summaries,
        found.default_verbosity,
        found.context_window,
        found.truncation_policy,
        found.family,
    )


LISTED = [
    # slug, default effort, last effort, window, upgrade
    ("gpt-6.1-sol", "low", "ultra", 272_000, None),
    ("gpt-6-astra", "low", "ultra", 272_000, None),
    ("gpt-6-sol", "medium", "ultra", 272_000, None),
    ("gpt-6-luna", "medium", "max", 272_000, None),
    ("gpt-5.6-sol", "low", "ultra", 272_000, "gpt-6-sol"),
    ("gpt-6.1-terra", "low", "ultra", 500_000, None),
    ("gpt-5.6-terra", "medium", "ultra", 272_000, "gpt-6-sol"),
    ("gpt-5.6-luna", "medium", "max", 272_000, "gpt-6-luna"),
    ("gpt-5.5", "medium", "xhigh", 272_000, "gpt-6-sol"),
]
"""What today's Codex lists, in its order."""


def test_the_models_of_today_are_listed_and_the_first_is_the_default() -> None:
    catalog = Catalog.load()
    found = [
        (
            model.slug,
            model.default_reasoning_level,
            model.supported_reasoning_levels[-1].effort,
            model.context_window,
            model.upgrade,
        )
        for model in catalog.listed
    ]
    assert found == LISTED
    assert catalog.default_slug == LISTED[0][0]
    assert {model.shell_type for model in catalog.listed} == {"unified_exec"}


def test_older_models_are_hidden_and_still_there() -> None:
    catalog = Catalog.load()
    hidden = {model.slug for model in catalog.named} - {model.slug for model in catalog.listed}
    assert {"gpt-5.2-codex", "gpt-5.2", "gpt-5.1-codex-max", "gpt-daybreak-red-latest", "codex-auto-review"} <= hidden
    assert not hidden & {"gpt-6", "gpt-5.6", "codex-"}  # these stand for whole lines of models


def test_every_listed_row_can_be_shown() -> None:
    for model in Catalog.load().listed:
        assert model.display_name and model.description
        efforts = [level.effort for level in model.supported_reasoning_levels]
        assert model.default_reasoning_level in efforts
        assert all(level.description for level in model.supported_reasoning_levels)


def test_an_unknown_slug_gets_the_fallback_and_is_marked() -> None:
    found = Catalog.load().find("my-model")
    assert found == ModelInfo(slug="my-model", provider="", apply_patch_tool_type="function", known=False)
    assert Catalog.load().find("gpt-5.2-codex-2026").known


def test_a_thread_is_compacted_before_the_window_is_full() -> None:
    assert Catalog.load().find("gpt-5.2-codex").compact_limit == 244_800
    assert ModelInfo(slug="x", auto_compact_token_limit=7).compact_limit == 7
    assert ModelInfo(slug="x", context_window=None).compact_limit is None


def test_the_longest_name_that_fits_wins_whatever_the_order() -> None:
    names = ["lab", "lab-1", "lab-1-max", "lab-1-m"]
    catalog = Catalog([ModelInfo(slug=name, description=name) for name in names])
    found = catalog.find("lab-1-max-2026")
    assert (found.description, found.slug, found.display_name) == ("lab-1-max", "lab-1-max-2026", "lab-1-max-2026")


def test_a_users_file_replaces_the_bundled_one(tmp_path: Path) -> None:
    path = tmp_path / "models.json"
    path.write_text(
        '{"models":[{"slug":"lab-1","visibility":"list","novel_field":[1],"base_instructions":"Be brief."}]}'
    )
    catalog = Catalog.load(str(path))
    assert (catalog.default_slug, catalog.find("lab-1b").base_instructions) == ("lab-1", "Be brief.")
    assert not catalog.find("gpt-5.2-codex").known


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{nonsense", "is not a model catalogue"),
        (b'{"models":[]}', "it lists no models"),
        (b'{"models":[{"slug":1}]}', "is not a model catalogue: .*slug"),
        (b"\xff\xfe", "is not a model catalogue"),
    ],
)
def test_an_unusable_file_is_named_with_the_reason(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "models.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=complaint):
        Catalog.load(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the model catalogue .*gone.json"):
        Catalog.load(str(tmp_path / "gone.json"))


@pytest.mark.parametrize(
    ("slug", "family"),
    [
        ("gpt-5.2-codex", "codex"),
        ("codex-mini-latest", "codex"),
        ("gpt-5.1", "gpt"),
        ("gpt-4.1", "gpt"),
        ("o4-mini", "gpt"),
        ("gpt-oss:20b", "small"),
        ("openai/gpt-oss-120b", "small"),
        ("qwen2.5-coder-1.5b", "small"),
        ("unheard-of-model", "default"),
        ("grub", "default"),
    ],
)
def test_the_family_is_read_from_the_name(slug: str, family: str) -> None:
    assert family_of(slug) == family


# ---- models of others --------------------------------------------------------------------------------

CLAUDES = [
    # slug, window, output, thinking, default effort, efforts
    ("claude-fable-5-1", 1_000_000, 128_000, "adaptive", "high", "low medium high xhigh max"),
    ("claude-opus-5-5", 1_000_000, 128_000, "adaptive", "medium", "low medium high xhigh max"),
    ("claude-sonnet-5-5", 1_000_000, 128_000, "adaptive", "high", "low medium high xhigh max"),
    ("claude-haiku-5-5", 1_000_000, 128_000, "adaptive", "medium", "low medium high xhigh max"),
    ("claude-opus-4-6", 1_000_000, 128_000, "adaptive", "high", "low medium high max"),
    ("claude-opus-4-5-20251101", 200_000, 64_000, "enabled", "high", "low medium high"),
    ("claude-haiku-4-5", 200_000, 64_000, "enabled", None, ""),
]


@pytest.mark.parametrize("row", CLAUDES, ids=lambda row: row[0])
def test_models_of_anthropic_are_known_for_the_messages_wire(row: tuple) -> None:
    found = Catalog.load().find(row[0])
    efforts = " ".join(level.effort for level in found.supported_reasoning_levels)
    told = (found.context_window, found.max_output_tokens, found.thinking, found.default_reasoning_level, efforts)
    assert (found.slug, *told) == row
    assert (found.provider, found.known, found.apply_patch_tool_type) == ("anthropic", True, "function")


def test_models_of_others_are_not_offered_for_openai() -> None:
    catalog = Catalog.load()
    assert {model.provider for model in catalog.named} == {"openai"}
    assert {model.provider for model in catalog.named_of("anthropic")} == {"anthropic"}
    claude = Provider(id="claude", name="Claude", base_url="https://api.anthropic.com/v1", wire_api="messages")
    assert [model.slug for model in catalog.offered(claude.vendor)][:2] == ["claude-opus-5-5", "claude-fable-5-1"]
    for other in (Provider(id="openai", name="OpenAI"), Provider(id="house", name="House", base_url="http://x/v1")):
        assert catalog.offered(other.vendor) == catalog.listed


# ---- the user's word ---------------------------------------------------------------------------------


def test_the_user_changes_any_field_of_a_row_and_adds_rows(home_config: Callable[[str], Config]) -> None:
    config = home_config(
        """
        [spindle.models."gpt-5.2"]
        context_window = 100000
        efforts = ["low", "high"]
        [spindle.models.house]
        profile = "small"
        thinking = "none"
        max_output_tokens = 9000
        prices = { input = 3, output = 6 }
        """
    )
    bundled, catalog = Catalog.load(), Catalog.load(None, config.spindle.models)
    changed = catalog.find("gpt-5.2")
    assert [level.effort for level in changed.supported_reasoning_levels] == ["low", "high"]
    assert msgspec.structs.replace(
        changed, context_window=272_000, supported_reasoning_levels=bundled.find("gpt-5.2").supported_reasoning_levels
    ) == bundled.find("gpt-5.2")
    house = catalog.find("house-7b")
    assert (house.known, house.profile, house.max_output_tokens, house.thinking) == (True, "small", 9_000, None)
    assert house.prices == Prices(3.0, 0.3, 6.0)
    assert (catalog.default_slug, "house" in [model.slug for model in catalog.listed]) == (bundled.default_slug, True)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ('[spindle.models.x]\ncontext_window = "much"', r"spindle\.models\.x\.context_window must be an integer"),
        ("[spindle.models.x]\nprices = { output = 3 }", r"spindle\.models\.x\.prices needs `input`"),
        (
            "[spindle.models.x]\nprices = { input = 1, cached_input = 2 }",
            r"spindle\.models\.x\.prices: prices must not",
        ),
        ('[spindle.models.x]\nsupported_reasoning_levels = ["low"]', r"spindle\.models\.x: Expected"),
        ('[spindle.models]\nx = "small"', r"spindle\.models\.x must be a table"),
    ],
)
def test_a_table_that_cannot_be_is_refused(home_config: Callable[[str], Config], table: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        home_config(table)


@pytest.fixture
def home_config(tmp_path: Path) -> Callable[[str], Config]:
    """The configuration that a user's file makes."""

    def load(text: str) -> Config:
        (tmp_path / "config.toml").write_text(dedent(text))
        return load_config(cwd=str(tmp_path), env={"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path)})

    return load
