"""Commands that nobody could make good again: refused where no person can be asked, whatever the sandbox allows.

Everything else that destroys runs there: the fence confines it, and undo covers the workspace. A script is read as far
as it can be; one that is beyond the limits of reading is refused, because nobody knows what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from spindle.policy.danger import is_dangerous
from spindle.policy.place import Place

# As text: `re` makes it when it is first needed.
_MAY_BE = (
    r"(?i)\b(rm|find|fd|mv|rsync|ch(mod|own|grp)|dd|tee|cp|truncate|install|shred|push|mkfs\S*|mke2fs|mkswap|wipefs|"
    r"\w?fdisk|parted|sgdisk|blkdiscard|u?mount|swap\w+|rmtree|removedirs|rm(dir)?Sync|rm_rf?|"
    r"remove_tree|rimraf|unlink|tar|zip)\b|/dev/|\|\s*\S+\s*&"
)
_LONG = 20_000


def catastrophe(argv: Sequence[str], place: Place) -> str | None:
    """Why this must not run where nobody can be asked, and what to do instead; None when nothing speaks against it."""
    text = " ".join(argv)
    if len(text) < _LONG and re.search(_MAY_BE, text) is None and not is_dangerous(argv):
        return None
    from spindle.policy.losses import loss  # only for commands that may take something away

    return loss(argv, place)
