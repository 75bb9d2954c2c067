"""The one loop that gets permission, tried with a kind of question that the program does not have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spindle.core.permission.approvals import Approvals, CallSite, Consult
from spindle.core.permission.asking import CallPermission
from spindle.core.permission.matter import Matter
from spindle.errors import Rejected
from spindle.policy.approval import Allow, Ask, Decision, Refuse
from spindle.policy.grants import Expiry, Grant, file_grant
from spindle.policy.rulebook import RuleBook
from spindle.policy.sandbox import Boundary
from spindle.protocol.events import GrantAdded, Msg, PlanUpdate
from spindle.protocol.settings import SandboxPolicy, ThreadSettings
from spindle.tools.tool import Permit

REFUSAL = "launch rejected by user"


class Launch(Matter):
    """A kind of question is nothing but such a class."""

    kind = "exec"
    refusal = REFUSAL

    def __init__(self, control: Control, site: CallSite, rocket: str) -> None:
        super().__init__(control.approvals, site)
        self._control = control
        self._rocket = rocket

    def decide(self) -> Decision:
        return self._control.decision

    def key(self, ask: Ask) -> object:
        return "launch", self._rocket

    def grants(self, ask: Ask, expires: Expiry) -> list[Grant]:
        return [file_grant(f"/rockets/{self._rocket}", expires=expires)]

    def request(self, ask: Ask, offers: list[dict[str, Any]]) -> Msg:
        return PlanUpdate(plan=[], explanation=f"{self.site.call_id}: {self._rocket}? {ask.reason}")

    def title(self, ask: Ask) -> str:
        return f"launch of {self._rocket}"


class Control:
    """A session's approvals, with what was asked, noted and interrupted."""

    def __init__(self, home: str) -> None:
        self.decision: Decision = Ask(reason="it is loud", sandboxed_if_approved=False)
        self.events: list[Msg] = []
        self.noted: list[tuple[str, bool]] = []
        self.interrupts = 0
        self.consult: Consult | None = None
        self.approvals = Approvals(
            self._no_problem,
            self._interrupt,
            RuleBook(home),
            note=lambda what, is_granted: self.noted.append((what, is_granted)),
        )

    async def _no_problem(self) -> str | None:
        return None

    def _interrupt(self) -> None:
        self.interrupts += 1

    @property
    def asked(self) -> list[str | None]:
        return [event.explanation for event in self.events if isinstance(event, PlanUpdate)]

    def wanted(self, rocket: str, call_id: str = "c1") -> asyncio.Task[Permit]:
        """A call that wants to launch; what it gets, or the refusal."""
        site = CallSite(
            sub_id="s",
            turn_id="t",
            call_id=call_id,
            settings=ThreadSettings(cwd="/w", model="m", model_provider="p"),
            boundary=Boundary(policy=SandboxPolicy(), cwd="/w"),
            emit=self.events.append,
            consult=self.consult,
        )
        return asyncio.ensure_future(CallPermission(self.approvals, site).obtain(Launch(self, site, rocket)))

    async def answer(self, decision: object, call_id: str = "c1") -> None:
        while not self.approvals.answer("exec", call_id, decision):
            await asyncio.sleep(0)


@pytest.fixture
def control(tmp_path_factory: pytest.TempPathFactory) -> Control:
    return Control(str(tmp_path_factory.mktemp("home")))


YES = Permit(sandboxed=False, asked=True)


async def test_what_policy_allows_or_refuses_is_asked_of_nobody(control: Control) -> None:
    control.decision = Allow(sandboxed=True)
    assert await control.wanted("a") == Permit(sandboxed=True)
    control.decision = Refuse(message="no rockets here")
    with pytest.raises(Rejected, match=r"^no rockets here$") as refused:
        await control.wanted("a")
    assert not refused.value.by_user and control.events == [] and control.noted == []


async def test_a_person_says_yes_or_no_and_the_ledger_hears_of_it(control: Control) -> None:
    call = control.wanted("a")
    await control.answer("approved")
    assert await call == YES
    call = control.wanted("a")
    await control.answer("denied")
    with pytest.raises(Rejected, match=f"^{REFUSAL}$") as refused:
        await call
    assert refused.value.by_user
    assert control.asked == ["c1: a? it is loud"] * 2
    assert control.noted == [("launch of a", True), ("launch of a", False)]


async def test_the_model_reads_why_a_person_said_no_in_every_call_that_waited_for_it(control: Control) -> None:
    calls = [control.wanted("a", "c1"), control.wanted("a", "c2")]
    await control.answer({"denied": {"reason": "not on a Monday"}}, "c1")
    refusals = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(refusal) for refusal in refusals] == [f"{REFUSAL}: not on a Monday"] * 2
    for unreadable in ({"denied": {"reason": ["no"]}}, {"denied": "no"}, {"denied": {"reason": "  "}}):
        call = control.wanted("a")
        await control.answer(unreadable)
        with pytest.raises(Rejected, match=f"^{REFUSAL}$"):
            await call


async def test_a_yes_for_the_session_spares_the_same_question_and_no_other(control: Control) -> None:
    call = control.wanted("a")
    await control.answer("approved_for_session")
    assert await call == await control.wanted("a") == YES
    assert len(control.asked) == 1 and [type(event) for event in control.events] == [PlanUpdate, GrantAdded]
    other = control.wanted("b")
    await control.answer("approved")
    assert await other == YES and len(control.asked) == 2


async def test_a_hook_gives_or_refuses_in_a_persons_place(control: Control) -> None:
    heard: list[tuple[str, str | None]] = []

    async def consult(call_id: str, reason: str | None) -> bool:
        heard.append((call_id, reason))
        if call_id == "c2":
            raise Rejected("a hook refuses this")
        return call_id == "c1"

    control.consult = consult
    assert await control.wanted("a", "c1") == YES
    with pytest.raises(Rejected, match=r"^a hook refuses this$"):
        await control.wanted("a", "c2")
    assert control.events == []
    call = control.wanted("a", "c3")
    await control.answer("approved", "c3")
    assert await call == YES and heard == [(name, "it is loud") for name in ("c1", "c2", "c3")]


@pytest.mark.parametrize(("decision", "questions"), [("denied", 1), ("approved_for_session", 1), ("approved", 2)])
async def test_the_same_question_is_open_once_and_its_answer_counts_as_far_as_it_goes(
    control: Control, decision: str, questions: int
) -> None:
    calls = [control.wanted("a", "c1"), control.wanted("a", "c2")]
    await control.answer(decision, "c1")
    if questions == 2:
        await control.answer(decision, "c2")
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [str(one) if isinstance(one, Rejected) else one for one in results] == [
        REFUSAL if decision == "denied" else YES
    ] * 2
    assert len(control.asked) == questions


async def test_policy_is_asked_anew_after_a_wait(control: Control) -> None:
    first, second = control.wanted("a", "c1"), control.wanted("a", "c2")
    await asyncio.sleep(0)
    control.decision = Allow(sandboxed=True)  # as when a rule was added with the answer to the first
    await control.answer("approved", "c1")
    assert (await first, await second) == (YES, Permit(sandboxed=True))
    assert len(control.asked) == 1


async def test_an_abort_interrupts_and_the_call_waits_to_be_stopped(control: Control) -> None:
    call = control.wanted("a")
    await control.answer("abort")
    while not control.interrupts:
        await asyncio.sleep(0)
    assert not call.done() and control.noted == [("launch of a", False)]
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
