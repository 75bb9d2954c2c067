"""Whether there is a way to a model. Light: it decides what the first paint shows."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spindle.auth.credentials import sign_in
from spindle.config.schema import Config
from spindle.errors import SpindleError


def missing_credential(config: Config, environ: Mapping[str, str] = os.environ) -> str | None:
    """Why the configured provider cannot be used, in a sentence; None when it can."""
    try:
        signed_in = sign_in(config.provider, config.login, environ=environ)
        signed_in.credential.authorization()
    except SpindleError as error:
        return str(error)
    return None
