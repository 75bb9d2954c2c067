"""Which base text a thread gets, and what our own texts say."""

from __future__ import annotations

import pytest

from spindle.patch.parse import UpdateFile, parse_patch
from spindle.prompt.instructions import FAMILIES, bundled_instructions, choose_instructions, personality_text
from spindle.protocol.settings import PERSONALITIES


def test_the_strongest_source_of_a_base_text_wins():
    sources = {
        "explicit": "given",
        "recorded": "in the rollout",
        "file_text": "the user's file",
        "template": "from {{ personality }}.",
        "model_text": "the model's",
    }
    chosen = []
    while sources:
        chosen.append(choose_instructions(**sources, template_variables={"personality_pragmatic": "dry"}))
        sources.pop(next(iter(sources)))
    assert chosen == ["given", "in the rollout", "the user's file", "from dry.", "the model's"]
    assert choose_instructions(family="codex") == bundled_instructions("codex")


@pytest.mark.parametrize(("personality", "text"), [("friendly", "F"), ("pragmatic", "D"), ("none", "")])
def test_a_template_takes_the_models_own_words_for_a_personality(personality, text):
    variables = {"personality_default": "D", "personality_friendly": "F", "personality_pragmatic": None}
    chosen = choose_instructions(template="<{{ personality }}>", template_variables=variables, personality=personality)
    assert chosen == f"<{text}>"


FULL = [family for family in FAMILIES if family != "inside"]
"""All but the shortest, whose readers have no room for more than how to use a tool."""


@pytest.mark.parametrize("family", FULL)
@pytest.mark.parametrize("personality", PERSONALITIES)
def test_a_bundled_text_carries_the_personality_and_no_placeholder(family, personality):
    text = bundled_instructions(family, personality)
    assert "{{" not in text and personality_text(personality) in text
    assert (len(personality_text(personality)) == 0) == (personality == "none")


def test_families_have_texts_of_their_own_and_of_fitting_size():
    texts = {family: bundled_instructions(family, "none") for family in FAMILIES}
    assert len(set(texts.values())) == len(FAMILIES)
    sizes = {family: len(text.encode()) for family, text in texts.items()}
    assert 6_000 <= sizes["codex"] <= 9_000 and 6_000 <= sizes["gpt"] <= 9_000
    assert 3_500 <= sizes["default"] <= 6_000 and sizes["small"] <= 2_200
    assert sizes["tiny"] <= 2_000  # with the personality and the form of calls as text: less than 700 tokens


TOPICS = [
    "rg",
    "apply_patch",
    "update_plan",
    "AGENTS.md",
    "sandbox",
    "git reset --hard",
    "commit",
    "data",
    "path",
    "test",
]


@pytest.mark.parametrize("family", FULL)
def test_every_text_covers_the_topics(family):
    text = bundled_instructions(family)
    # Small models have no tool for plans.
    missing = ["update_plan"] if family == "tiny" else []
    assert [topic for topic in TOPICS if topic not in text] == missing


@pytest.mark.parametrize("family", ["gpt", "default", "small", "tiny"])
def test_models_that_may_lack_a_patch_tool_are_shown_a_patch_that_can_be_read(family):
    text = bundled_instructions(family)
    example = text[text.index("*** Begin Patch") : text.index("*** End Patch") + 13]
    updates = [hunk for hunk in parse_patch(example) if isinstance(hunk, UpdateFile)]
    assert [sorted({sign for chunk in hunk.chunks for sign, _ in chunk.lines}) for hunk in updates] == [[" ", "+", "-"]]


def test_an_unknown_family_gets_the_default_text():
    assert bundled_instructions("odd") == bundled_instructions("default")
