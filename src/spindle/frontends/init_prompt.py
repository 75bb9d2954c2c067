"""What a model is asked for when somebody wants an AGENTS.md written: `/init` of every front end."""

from __future__ import annotations

INIT_PROMPT = """\
Write a file AGENTS.md in the working folder: notes for a coding agent that sees this project for the first time.

Look before you write: the README, the build files, the tests, the history, how the code is laid out. Then put down only
what you found to be true here and what somebody could not guess:
- what the project is, in two sentences, and which folders hold what;
- the exact commands to set it up, build it, run it, and run all tests or a single one;
- how code is written here: language versions, formatting, naming, patterns that recur, what is avoided;
- how changes are made: tests that are expected, commit messages, checks that must pass;
- traps: generated files, slow or flaky tests, secrets, things that must not be touched.

Keep it under 60 lines of Markdown, plain headings and short lists, commands in code blocks. No praise, no generalities.
If something cannot be found out, leave it out. Do not change any other file."""
