"""/model, /personality: what is listed, what is chosen, what is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fake_server import FakeServer, refuses
from spindle.frontends.tui.commands import model, running
from tui.commands.conftest import OpenDesk
from tui.fake_desk import FakeDesk


def saved(desk: FakeDesk) -> str:
    return Path(desk.config.home, "config.toml").read_text()


async def test_the_list_marks_the_model_in_use_then_asks_for_the_effort(open_desk: OpenDesk) -> None:
    desk = await open_desk('model = "gpt-5.2-codex"\n# mine\n')
    desk.hands = [("enter",), ("down", "enter")]
    await running.run(desk, "/model")
    models, efforts = desk.views
    assert (
        any("gpt-5.2-codex (current)" in row for row in models) and sum("gpt-5.2-codex " in row for row in models) == 1
    )
    assert [row for row in models if row.lstrip("› ").startswith("1. ")]
    assert efforts[0] == "How hard should gpt-5.2-codex think?"
    assert desk.thread is not None and desk.thread.settings.model == "gpt-5.2-codex"
    assert desk.thread.settings.effort == "high"
    assert saved(desk) == 'model = "gpt-5.2-codex"\n# mine\nmodel_reasoning_effort = "high"\n'
    assert desk.said[-1].startswith("Model gpt-5.2-codex, effort high from now on; saved in ")


async def test_leaving_either_list_changes_nothing(desk: FakeDesk) -> None:
    desk.hands = [("esc",), ("enter",), ("esc",)]
    await running.run(desk, "/model")
    await running.run(desk, "/model")
    assert desk.submitted == [] and saved(desk) == "" and desk.said == []


async def test_a_model_is_named_with_its_effort(desk: FakeDesk) -> None:
    await running.run(desk, "/model gpt-5.2-codex low")
    assert desk.thread is not None
    assert (desk.thread.settings.model, desk.thread.settings.effort) == ("gpt-5.2-codex", "low")
    await running.run(desk, "/model medium")
    assert (desk.thread.settings.model, desk.thread.settings.effort) == ("gpt-5.2-codex", "medium")
    await running.run(desk, "/model gpt-5.2-codex hgih")
    assert desk.failed == ["gpt-5.2-codex has no effort 'hgih'; did you mean high?"]
    await running.run(desk, "/model some-other-model")
    assert desk.thread.settings.model == "some-other-model"


async def test_a_place_that_overrules_the_file_is_named(open_desk: OpenDesk) -> None:
    desk = await open_desk('[profiles.quick]\nmodel = "a"\n')
    desk.config.origins["model"] = "-c"
    await running.run(desk, "/model gpt-5.2-codex")
    assert "though -c has the last word here at the next start" in desk.text


async def test_a_file_that_cannot_be_changed_is_told_and_the_choice_counts_all_the_same(desk: FakeDesk) -> None:
    Path(desk.config.home, "config.toml").write_text("model = [broken")
    await running.run(desk, "/model gpt-5.2-codex low")
    assert "for this session only, since it could not be saved: " in desk.text
    assert desk.thread is not None and desk.thread.settings.effort == "low"
    assert saved(desk) == "model = [broken"


async def test_effort_goes_up_and_down_by_one_level(desk: FakeDesk) -> None:
    await running.run(desk, "/model gpt-5.2-codex low")
    for step, effort in ((1, "medium"), (1, "high"), (-1, "medium"), (-1, "low"), (-1, "low")):
        await model.step_effort(desk, step)
        assert desk.thread is not None and desk.thread.effort == effort


async def test_personality_is_chosen_and_kept(desk: FakeDesk) -> None:
    desk.hands = [("2",)]
    await running.run(desk, "/personality")
    assert desk.thread is not None and desk.thread.settings.personality == "friendly"
    assert 'personality = "friendly"' in saved(desk)


async def test_a_server_on_this_computer_lists_its_own_models(open_desk: OpenDesk, server: FakeServer) -> None:
    server.otherwise(refuses(200, {"data": [{"id": "small-8b"}, {"id": "other\x1b[2J"}]}))
    environment = {"CODEX_OSS_BASE_URL": server.base_url}
    desk = await open_desk('model_provider = "ollama"\nmodel = "small-8b"\n', environment=environment)
    desk.hands = [("esc",)]
    await running.run(desk, "/model")
    assert any("1. small-8b (current)" in row for row in desk.views[0])
    assert not any("gpt" in row for row in desk.views[0]) and all(row.isprintable() for row in desk.views[0])


LAB = '[model_providers.lab]\nname = "Lab"\nbase_url = "http://127.0.0.1:9/v1"\nwire_api = "chat"\n'


async def with_servers(open_desk: OpenDesk) -> FakeDesk:
    """A desk whose thread asks servers, not a script; none of them is asked here."""
    desk = await open_desk(LAB)
    desk.request = msgspec.structs.replace(desk.request, client=None)
    await desk.reopen()
    return desk


async def test_a_model_of_another_provider_is_named_with_it(open_desk: OpenDesk) -> None:
    desk = await with_servers(open_desk)
    await running.run(desk, "/model @lab house-9")
    assert desk.thread is not None
    assert (desk.thread.settings.model_provider, desk.thread.settings.model) == ("lab", "house-9")
    assert desk.said[-1].startswith("Model house-9 of Lab from now on; saved in ")
    assert 'model_provider = "lab"' in saved(desk)
    await running.run(desk, "/model @lba house-9")
    assert desk.failed == ["there is no provider 'lba'; did you mean @lab?"]


async def test_the_list_of_models_leads_to_other_providers(open_desk: OpenDesk) -> None:
    desk = await with_servers(open_desk)
    desk.hands = [("up", "enter"), ("up", "enter"), ("enter",), ("enter",)]
    await running.run(desk, "/model")
    assert [view[0] for view in desk.views[:3]] == ["Model", "Provider", "Model"]
    assert any("lab" in row for row in desk.views[1])
    assert desk.thread is not None and desk.thread.settings.model_provider == "lab"
