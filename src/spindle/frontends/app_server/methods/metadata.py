"""`thread/metadata/update`: a client corrects what the record says about the repository of a thread."""

from __future__ import annotations

import msgspec

from spindle.frontends.app_server.method import Call, Method
from spindle.frontends.app_server.methods.records import ThreadReadParams, ThreadResult, thread_read
from spindle.frontends.app_server.objects import Thread, Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.thread.git_notes import Git

_NAMES = {"sha": "commit_hash", "branch": "branch", "originUrl": "repository_url"}
"""Of the client → of the record."""


class GitInfoChanges(Wire, frozen=True, kw_only=True):
    """What is left out stays, null takes it away."""

    sha: str | msgspec.UnsetType | None = msgspec.UNSET
    branch: str | msgspec.UnsetType | None = msgspec.UNSET
    origin_url: str | msgspec.UnsetType | None = msgspec.UNSET


class MetadataUpdateParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    git_info: GitInfoChanges | None = None
    project_id: str | None = None
    """There are no projects here."""


async def metadata_update(call: Call, params: MetadataUpdateParams) -> Wire:
    if params.project_id:
        raise RpcError(f"there is no project {params.project_id!r}: Spindle has no projects")
    if params.git_info is None:
        raise RpcError("thread metadata update must include at least one field")
    changes: dict[str, str | None] = msgspec.to_builtins(params.git_info)
    if not changes:
        raise RpcError("gitInfo must include at least one field")
    for name, value in changes.items():
        if value is not None and not value.strip():
            raise RpcError(f"gitInfo.{name} must not be empty")
    shown = await _read(call, params.thread_id)
    if shown.ephemeral:
        raise RpcError(f"thread {params.thread_id} is not recorded, so nothing can be noted about it")
    known = shown.git_info
    before: Git = {} if known is None else {"commit_hash": known.sha, "branch": known.branch}
    if known is not None:
        before["repository_url"] = known.origin_url
    call.server.store.git_notes.set(shown.id, before | {_NAMES[name]: value for name, value in changes.items()})
    return ThreadResult(thread=await _read(call, params.thread_id))


async def _read(call: Call, thread_id: str) -> Thread:
    return (await thread_read(call, ThreadReadParams(thread_id=thread_id))).thread


METHODS = (
    Method(name="thread/metadata/update", params=MetadataUpdateParams, result=ThreadResult, run=metadata_update),
)
