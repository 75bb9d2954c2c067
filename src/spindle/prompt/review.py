"""The words of a review: what the reviewer is asked, and what the thread that wanted the review is told of it."""

from __future__ import annotations

from spindle.prompt.bundled import text
from spindle.protocol.items import Item, user_message
from spindle.protocol.origin import block, defused_name, defused_parts
from spindle.protocol.quote import visible
from spindle.protocol.review import BaseBranch, Commit, Custom, Target, Uncommitted


def reviewer_instructions() -> str:
    """The base text of a reviewer, in the place of the usual one."""
    return text("review")


def review_request(target: Target, merge_base: str | None = None) -> str:
    """The one message that a reviewer gets; `merge_base` is that of a branch."""
    match target:
        case Uncommitted():
            return (
                "Review the current code changes (staged, unstaged, and untracked files) and provide prioritized "
                "findings."
            )
        case BaseBranch(branch=branch):
            return (
                f"Review what this branch would bring into the base branch '{_inside(branch)}'. "
                f"The merge base of the two is commit {merge_base}: `git diff {merge_base}` shows the changes. "
                "Provide prioritized findings."
            )
        case Commit(sha=sha, title=title):
            named = f' ("{_inside(title)}")' if title else ""
            return f"Review the changes that commit {sha}{named} introduces. Provide prioritized findings."
        case Custom(instructions=instructions):
            return instructions


def _inside(name: str) -> str:
    """A name or title that a repository gave: it stays between its quotes, and on its line."""
    return defused_name(visible(name)).replace("'", "’").replace('"', "”")


def review_note(rendering: str) -> Item:
    """What the model of the thread is told of a review: what the reviewer wrote is material, and stays in its place."""
    return _note(text("review_done"), defused_parts(rendering, "context", "action", "results"))


def review_cut_short() -> Item:
    """The same of a review that failed or was stopped."""
    return _note(text("review_cut_short"), "None.")


def _note(context: str, results: str) -> Item:
    told = f"<context>{context}</context>\n<action>review</action>\n<results>\n{results}\n</results>"
    return user_message(block("user_action", told))
