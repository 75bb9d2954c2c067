"""Variables by which a program is told what code to run, or where its settings are."""

from __future__ import annotations

import re

_NAMES = (
    r"(?i)\w*(PATH|PRELOAD|OPTIONS|OPTS?|FLAGS|COMMAND|CMD|SHELL|EDITOR|PAGER|BROWSER|CONFIG\w*|HOME|ENV|STARTUP|INIT|RC|"
    r"LIB|ASKPASS|PROXY|PROGRAM|EXEC\w*|WRAPPER|LINKER|TEMPLATE\w*|RSH|LESSOPEN|LESSCLOSE)\Z"
    r"|(GIT(?!_AUTHOR_|_COMMITTER_)|SSH|BASH|LD|DYLD|PYTHON|NODE|NPM|PERL5?|RUBY|JAVA|RUST|CARGO|GO|CC|CXX|AR|MAKE|PIP|UV|DOCKER|KUBE|AWS)\w*\Z"
)


def names_code(variable: str) -> bool:
    return re.match(_NAMES, variable) is not None
