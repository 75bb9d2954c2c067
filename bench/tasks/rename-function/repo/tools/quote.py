#!/usr/bin/env python3
"""Print the total of PRICExCOUNT arguments."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from shop import get_total as total  # noqa: E402

print(total([tuple(map(int, word.split("x"))) for word in sys.argv[1:]]))
