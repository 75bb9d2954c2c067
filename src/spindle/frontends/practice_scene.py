"""Where the practice model works: a small repository with a bug in it, made anew each time. For all demos."""

from __future__ import annotations

import os

from spindle.model.scripted import Asked

PROMPT = "The tests of textstats.py fail. Find out why, fix it, and show me that they pass."

FILES = {
    "README.md": "# textstats\n\nCounts words and finds the most common ones.\n",
    "textstats.py": '''\
"""Small statistics about a text."""


def words(text):
    """The words of a text, in lower case, without punctuation."""
    return [word.strip(".,;:!?").lower() for word in text.split(" ")]


def most_common(text, count=3):
    """The most common words; of equally common ones the alphabetically first."""
    seen = {}
    for word in words(text):
        seen[word] = seen.get(word, 0) + 1
    return sorted(seen, key=lambda word: (-seen[word], word))[:count]
''',
    "test_textstats.py": """\
import unittest

from textstats import most_common, words


class WordsTest(unittest.TestCase):
    def test_punctuation_is_left_out(self):
        self.assertEqual(words("Stop. Go!"), ["stop", "go"])

    def test_line_ends_separate_words_too(self):
        self.assertEqual(words("one two\\nthree"), ["one", "two", "three"])


class MostCommonTest(unittest.TestCase):
    def test_the_most_common_come_first(self):
        self.assertEqual(most_common("b a\\nb c a b"), ["b", "a", "c"])


if __name__ == "__main__":
    unittest.main()
""",
}

PATCH = """\
*** Begin Patch
*** Update File: textstats.py
@@ def words(text):
     \"\"\"The words of a text, in lower case, without punctuation.\"\"\"
-    return [word.strip(".,;:!?").lower() for word in text.split(" ")]
+    return [word.strip(".,;:!?").lower() for word in text.split()]
*** End Patch
"""


def set_scene(project: str, home: str) -> None:
    """A git repository with a bug in it, and a home of its own: the user's files are not touched."""
    import subprocess  # once, to make a repository

    from spindle.process.lookup import find_installed  # the same

    os.makedirs(project)
    os.makedirs(home, mode=0o700)
    for name, content in FILES.items():
        with open(f"{project}/{name}", "w", encoding="utf-8") as file:
            file.write(content)
    try:
        if (git := find_installed("git")) is None:
            raise FileNotFoundError
        subprocess.run([git, "init", "-q", project], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        os.makedirs(f"{project}/.git", exist_ok=True)  # no git here: the folder alone marks the project's root


def output_of(request: Asked, call_id: str) -> str:
    """What a call of the practice model really printed."""
    for item in request.input:
        if item.get("type") == "function_call_output" and item.get("call_id") == call_id:
            return str(item["output"])
    return ""
