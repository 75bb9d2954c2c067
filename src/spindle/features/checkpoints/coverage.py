"""Which paths below a root are covered: what git does not ignore, and what it tracks all the same.

A path that was covered once stays so. A new one is covered if it is hidden neither by the rules of now nor by those
that held at the look before: a command that changes a `.gitignore` brings files into view that were there all along,
and nobody knows what they were like before.
"""

from __future__ import annotations

from collections.abc import Iterator

from spindle.features.checkpoints.rules import Rules, index_stamp, parsed, top_rules, tracked_paths


class Coverage:
    """Below one root. Folders are named from the root, which is "" itself."""

    def __init__(self, root: str, left_out: tuple[str, ...] = ()) -> None:
        self._root = root.rstrip("/")
        self._left_out = left_out
        """Absolute paths that are none of a turn's business: the agent's own folders."""
        self._top = top_rules(root)
        self._texts: dict[str, bytes] = {}
        """The ignore files, by their folder."""
        self._rules: dict[str, Rules] = {}
        self._former: dict[str, Rules] = {}
        """Rules that held at the last look and have changed since."""
        self._hidden: set[str] = set()
        self._tracked: set[str] = set()
        """What git tracks though a rule hides it, and the folders on the way to it."""
        self._index: tuple[int, int] | None = None

    @property
    def in_repository(self) -> bool:
        return self._top is not None

    def enter(self, folder: str, ignore_file: bytes | None) -> bool:
        """A folder is looked at, with this `.gitignore` in it; true when that is not the one it had."""
        former = self._texts.get(folder)
        if former == ignore_file:
            return False
        if ignore_file is None:
            self._texts.pop(folder, None)
        else:
            self._texts[folder] = ignore_file
        below = f"{folder}/" if folder else ""
        for known in [known for known in self._rules if known == folder or known.startswith(below)]:
            self._former.setdefault(known, self._rules.pop(known))
        return True

    def settle(self) -> None:
        """A look is over: from the next one on, only the present rules count."""
        self._former.clear()

    def hides(self, folder: str, name: str, *, is_folder: bool) -> bool:
        """Is a name that was not known so far none of our business?"""
        path = f"{folder}/{name}" if folder else name
        if name == ".git" or f"{self._root}/{path}" in self._left_out:
            return True
        if self._top is None or path in self._tracked:
            return False
        if self._tracked and folder in self._tracked and not self._hidden.isdisjoint(_ways_to(folder)):
            return True  # beside what git tracks in a folder that it ignores
        is_hidden = self._rules_of(folder).hides(name, is_folder=is_folder) or (
            bool(self._former) and self._was_hidden(folder, name, is_folder=is_folder)
        )
        if is_hidden:
            self._hidden.add(path)
        return is_hidden

    def _rules_of(self, folder: str) -> Rules:
        rules = self._rules.get(folder)
        if rules is None:
            assert self._top is not None
            above = self._rules_of(folder.rpartition("/")[0]) if folder else self._top
            parts = folder.split("/") if folder else ()
            rules = self._rules[folder] = Rules(above, parts, parsed(self._texts.get(folder)))
        return rules

    def _was_hidden(self, folder: str, name: str, *, is_folder: bool) -> bool:
        """Under the rules of the last look? A folder that is new since then had those of the one above it."""
        parts = folder.split("/") if folder else []
        for end in range(len(parts), -1, -1):
            rules = self._former.get("/".join(parts[:end]))
            if rules is not None:
                return rules.hides(*parts[end:], name, is_folder=is_folder)
        return False

    # ---- what git tracks -----------------------------------------------------------------------

    def find_tracked(self) -> set[str]:
        """Ask git's index, if it has changed, what it tracks among what is hidden; gives the folders to look at."""
        if self._top is None or (stamp := index_stamp(self._root)) == self._index:
            return set()
        self._index = stamp
        if not self._hidden:
            return set()
        folders: set[str] = set()
        for path in tracked_paths(self._root):
            steps = list(_ways_to(path))
            if path not in self._tracked and not self._hidden.isdisjoint(steps):
                self._tracked.update(steps)
                folders.update(step.rpartition("/")[0] for step in steps)
        return folders


def _ways_to(path: str) -> Iterator[str]:
    """`a`, `a/b` and `a/b/c` for the last of them."""
    parts = path.split("/")
    return ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
