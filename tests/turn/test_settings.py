"""Changes of the surroundings are appended once, and only when something changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sessions import Driver, Start, texts
from spindle.model.scripted import calls, says
from spindle.protocol.answers import ListSkillsResponse
from spindle.protocol.events import Error, TaskComplete, ThreadRolledBack, Warning
from spindle.protocol.ops import ListSkills, OverrideTurnContext, ThreadRollback
from spindle.workspace.shell import user_shell


def new_items(driver: Driver) -> list[dict[str, Any]]:
    before, after = driver.inputs[-2:]
    assert after[: len(before)] == before
    return after[len(before) :]


async def test_the_first_request_has_the_seed_layout(start: Start, workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("RULES-X\n")
    driver = await start(config={"developer_instructions": "DEV-X"})
    await driver.turn("PROMPT-X", says("x"))
    first = driver.inputs[0]
    assert [item["role"] for item in first] == ["developer", "developer", "user", "user", "user"]
    said = texts(first)
    assert said[0].startswith("<permissions instructions>\n") and said[1] == "DEV-X" and "RULES-X" in said[2]
    assert said[3] == (
        f"<environment_context>\n  <cwd>{workspace}</cwd>\n  <shell>{user_shell().name}</shell>\n</environment_context>"
    )
    assert said[4] == "PROMPT-X"


async def test_unchanged_settings_add_nothing(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one"))
    await driver.turn("P2", says("two"), model="gpt-5.2-codex", approval_policy="never")
    assert texts(new_items(driver)) == ["one", "P2"]


async def test_another_sandbox_is_told_once_before_the_next_prompt(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one"))
    driver.submit(OverrideTurnContext(sandbox_policy={"type": "workspace-write"}))
    assert await driver.idle() == [] and len(driver.model.requests) == 1
    await driver.turn("P2", says("two"))
    answer, permissions, prompt = new_items(driver)
    assert (permissions["role"], texts([prompt])) == ("developer", ["P2"])
    assert "`workspace-write`" in texts([permissions])[0] and texts([answer]) == ["one"]
    await driver.turn("P3", says("three"))
    assert texts(new_items(driver)) == ["two", "P3"]


async def test_there_and_back_again_before_a_turn_is_no_change(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one"))
    driver.submit(OverrideTurnContext(approval_policy="untrusted"))
    driver.submit(OverrideTurnContext(approval_policy="never"))
    await driver.turn("P2", says("two"))
    assert texts(new_items(driver)) == ["one", "P2"]


async def test_another_folder_is_told_with_its_own_documents(start: Start, workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "AGENTS.md").write_text("OTHER-RULES\n")
    (workspace / "AGENTS.md").write_text("RULES\n")
    driver = await start()
    await driver.turn("P1", says("one"))
    await driver.turn("P2", says("two"), cwd=str(other))
    said = texts(new_items(driver))
    assert (
        said[1]
        == f"<environment_context>\n  <cwd>{other}</cwd>\n  <shell>{user_shell().name}</shell>\n</environment_context>"
    )
    assert "OTHER-RULES" in said[2] and said[3] == "P2"


async def test_another_model_keeps_the_base_text_and_the_tools(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one"))
    await driver.turn("P2", says("two"), model="gpt-5.1")
    first, second = (asked.raw for asked in driver.model.requests)
    assert (second.model, second.instructions, second.tools) == ("gpt-5.1", first.instructions, first.tools)
    assert [item["role"] for item in new_items(driver)] == ["assistant", "developer", "user"]
    assert texts(new_items(driver))[1].startswith("<model_switch>")


async def test_a_mode_brings_its_own_model_and_effort(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one"))
    own = {"model": "gpt-5.1", "reasoning_effort": "high", "developer_instructions": None}
    await driver.turn("P2", says("two"), effort="low", collaboration_mode={"mode": "plan", "settings": own})
    request = driver.model.requests[-1]
    assert (request.model, (request.reasoning or {}).get("effort")) == ("gpt-5.1", "high")
    odd: Any = {"mode": "default", "settings": {"model": None, "reasoning_effort": 5, "developer_instructions": 7}}
    await driver.turn("P3", says("three"), collaboration_mode=odd)
    assert texts(new_items(driver))[1].startswith("<collaboration_mode># Default mode")
    await driver.turn("P4", says("four"), collaboration_mode={"mode": "plan", "settings": "none"})
    request = driver.model.requests[-1]
    assert (request.model, (request.reasoning or {}).get("effort")) == ("gpt-5.1", "high")


async def test_a_selected_skill_comes_after_the_prompt(start: Start, workspace: Path) -> None:
    folder = workspace / ".agents/skills/alpha"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: alpha\ndescription: Does alpha things\n---\n\nSECRET-BODY\n")
    driver = await start()
    await driver.turn("use $alpha please", says("x"))
    said = texts(driver.inputs[0])
    assert "- alpha: Does alpha things (file: " in said[1] and "SECRET-BODY" not in said[1]
    assert said[-2] == "use $alpha please" and said[-1].startswith("<skill>\n<name>alpha</name>\n<path>")
    assert "SECRET-BODY" in said[-1]


async def test_skills_are_listed_and_read_again_on_request(start: Start, workspace: Path) -> None:
    driver = await start()
    driver.submit(ListSkills(cwds=[str(workspace)]))
    empty = await driver.until(ListSkillsResponse)
    folder = workspace / ".agents/skills/beta"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: beta\ndescription: B\n---\n")
    driver.submit(ListSkills(cwds=[str(workspace)], force_reload=True))
    full = await driver.until(ListSkillsResponse)
    assert [skill["name"] for skill in empty.skills[0]["skills"]] == []
    assert [skill["name"] for skill in full.skills[0]["skills"]] == ["beta"]
    assert full.skills[0]["cwd"] == str(workspace) and full.skills[0]["errors"] == []


async def test_a_value_that_cannot_be_is_refused_and_starts_nothing(start: Start) -> None:
    driver = await start()
    sub_id = driver.begin("P1", approval_policy="sometimes")
    error = await driver.until(Error, sub_id=sub_id)
    assert error.message == ("unknown approval policy 'sometimes'; use one of untrusted, on-failure, on-request, never")
    assert driver.model.requests == []


async def test_a_bookmark_goes_back_and_what_came_after_is_not_sent(start: Start) -> None:
    driver = await start()
    await driver.turn("Q1", says("A1"))
    await driver.turn("Q2", says("A2"), sandbox_policy={"type": "read-only"})
    await driver.turn("Q3", says("A3"), last_response_id="resp-1", sandbox_policy={"type": "danger-full-access"})
    first, _, third = driver.inputs
    assert third[: len(first)] == first
    assert texts(third[len(first) :]) == ["A1", "Q3"]


async def test_an_unknown_bookmark_is_an_error_and_no_turn(start: Start) -> None:
    driver = await start()
    await driver.turn("Q1", says("A1"))
    sub_id = driver.begin("Q2", last_response_id="resp-99")
    assert "resp-99" in (await driver.until(Error, sub_id=sub_id)).message
    assert len(driver.model.requests) == 1


async def test_the_schema_of_one_turn_does_not_stay(start: Start) -> None:
    driver = await start()
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    await driver.turn("P1", says("{}"), final_output_json_schema=schema)
    await driver.turn("P2", says("x"))
    first, second = (asked.raw for asked in driver.model.requests)
    assert first.text == {
        "format": {"type": "json_schema", "strict": True, "schema": schema, "name": "codex_output_schema"}
    }
    assert second.text is None


async def test_two_sessions_in_one_process_do_not_mix(start: Start) -> None:
    one, two = await start(), await start()
    one.model.script(calls("exec_command", {"cmd": "sleep 0.2; echo one"}, "c1"), says("one"))
    two.model.script(calls("exec_command", {"cmd": "echo two"}, "c1"), says("two"))
    first, second = one.begin("a"), two.begin("b")
    assert (await one.end_of(first))[-1] == TaskComplete(turn_id="s1", last_agent_message="one", response_id="resp-2")
    assert (await two.end_of(second))[-1] == TaskComplete(turn_id="s1", last_agent_message="two", response_id="resp-2")
    assert one.session.thread_id != two.session.thread_id


async def test_a_null_effort_goes_back_to_the_models_own(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one"), effort="high")
    await driver.turn("P2", says("two"))
    await driver.turn("P3", says("three"), effort=None)
    assert [request.reasoning["effort"] for request in driver.model.requests] == ["high", "high", "medium"]


async def test_what_was_told_in_a_turn_that_is_rolled_back_is_told_again(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one"))
    await driver.turn("P2", says("two"), cwd=str(Path("/usr")))
    driver.submit(ThreadRollback(num_turns=2))
    await driver.until(ThreadRolledBack)
    await driver.turn("P3", says("three"), cwd=str(Path("/usr")))
    assert "<cwd>/usr</cwd>" in "".join(texts(driver.inputs[2]))


async def test_a_model_that_nobody_knows_is_named_once_when_the_thread_goes_on_with_it(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one"), model="house-model-9")
    await driver.turn("P2", says("two"), model="house-model-9")
    await driver.turn("P3", says("three"), model="gpt-5.2")
    told = [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]
    assert [text for text in told if "catalogue" in text] == [
        "model house-model-9 is not in the catalogue; general defaults are used for it"
    ]
