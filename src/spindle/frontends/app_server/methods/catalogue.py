"""What there is to choose from: `model/list`, `skills/list`, `experimentalFeature/list`."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Literal

from spindle.config.keys import FEATURES
from spindle.frontends.app_server.items import camel
from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.frontends.app_server.threads import MAX_PAGE, page
from spindle.model.catalog import Catalog, ModelInfo
from spindle.workspace.skills import Skill, load_skills, with_admin

_STAGES = {"experimental": "underDevelopment"}


class ModelListParams(Wire, frozen=True, kw_only=True):
    cursor: str | None = None
    limit: int = MAX_PAGE
    include_hidden: bool = False


class ReasoningEffortOption(Wire, frozen=True, kw_only=True):
    reasoning_effort: str
    description: str


class ServiceTier(Wire, frozen=True, kw_only=True):
    id: str
    name: str
    description: str


class Model(Wire, frozen=True, kw_only=True):
    id: str
    model: str
    upgrade: str | None
    upgrade_info: None = None
    availability_nux: None = None
    display_name: str
    description: str
    model_specialty: str | None = None
    hidden: bool
    supported_reasoning_efforts: list[ReasoningEffortOption]
    default_reasoning_effort: str
    input_modalities: list[str]
    supports_personality: bool
    multi_agent_version: str | None = None
    additional_speed_tiers: list[str] = []
    service_tiers: list[ServiceTier] = []
    default_service_tier: str | None = None
    available_access_programs: None = None
    is_default: bool


class ModelListResult(Wire, frozen=True, kw_only=True):
    data: list[Model]
    next_cursor: str | None


class SkillsListParams(Wire, frozen=True, kw_only=True):
    cwds: list[str] = []
    force_reload: bool = False


class SkillInfo(Wire, frozen=True, kw_only=True):
    name: str
    description: str
    short_description: str | None = None
    interface: dict[str, Any] | None = None
    dependencies: dict[str, Any] | None = None
    path: str
    scope: Literal["repo", "user", "system", "admin"]
    enabled: bool
    plugin_id: None = None


class SkillProblem(Wire, frozen=True, kw_only=True):
    path: str
    message: str


class SkillsEntry(Wire, frozen=True, kw_only=True):
    cwd: str
    skills: list[SkillInfo]
    errors: list[SkillProblem]


class SkillsListResult(Wire, frozen=True, kw_only=True):
    data: list[SkillsEntry]


class FeatureListParams(Wire, frozen=True, kw_only=True):
    cursor: str | None = None
    limit: int = MAX_PAGE


class Feature(Wire, frozen=True, kw_only=True):
    name: str
    stage: Literal["beta", "underDevelopment", "stable", "deprecated", "removed"]
    display_name: None = None
    description: None = None
    announcement: None = None
    enabled: bool
    default_enabled: bool


class FeatureListResult(Wire, frozen=True, kw_only=True):
    data: list[Feature]
    next_cursor: str | None


class FeatureEnablement(Wire, frozen=True, kw_only=True):
    enablement: dict[str, bool]


class ExtraRootsParams(Wire, frozen=True, kw_only=True):
    extra_roots: list[str]


class CapabilitiesResult(Wire, frozen=True, kw_only=True):
    image_generation: bool = False
    web_search: bool


class Mode(Wire, frozen=True, kw_only=True, rename=None):
    name: str
    mode: Literal["plan", "default"]
    model: None = None
    reasoning_effort: None = None
    developer_instructions: None = None


class ModeListResult(Wire, frozen=True, kw_only=True):
    data: list[Mode]


async def model_list(call: Call, params: ModelListParams) -> Wire:
    catalog = Catalog.load(call.server.config.model_catalog_json, call.server.config.spindle.models)
    rows = catalog.named if params.include_hidden else catalog.listed
    default = call.server.config.model or catalog.default_slug
    if default not in [row.slug for row in rows]:
        default = catalog.default_slug
    chosen, following, _ = page(
        rows, [row.slug for row in rows], cursor=params.cursor, limit=params.limit, descending=False
    )
    return ModelListResult(data=[_model(row, default) for row in chosen], next_cursor=following)


def _model(row: ModelInfo, default: str) -> Model:
    upgrade = row.upgrade.get("model") if isinstance(row.upgrade, dict) else row.upgrade
    return Model(
        id=row.slug,
        model=row.slug,
        upgrade=upgrade if isinstance(upgrade, str) else None,
        display_name=row.display_name,
        description=row.description or "",
        hidden=row.visibility != "list",
        supported_reasoning_efforts=[
            ReasoningEffortOption(reasoning_effort=level.effort, description=level.description)
            for level in row.supported_reasoning_levels
        ],
        default_reasoning_effort=row.default_reasoning_level or "medium",
        input_modalities=list(row.input_modalities),
        supports_personality=row.family == "codex",
        model_specialty=row.model_specialty,
        multi_agent_version=row.multi_agent_version,
        additional_speed_tiers=list(row.additional_speed_tiers),
        service_tiers=[
            ServiceTier(id=tier.id, name=tier.name, description=tier.description) for tier in row.service_tiers
        ],
        default_service_tier=row.default_service_tier,
        is_default=row.slug == default,
    )


async def skills_list(call: Call, params: SkillsListParams) -> Wire:
    """Read anew each time, so `forceReload` changes nothing."""
    config = call.server.config
    entries = []
    for cwd in params.cwds or [config.cwd]:
        found = load_skills(
            os.path.abspath(cwd),
            config.home,
            root_markers=config.project_root_markers,
            disabled=config.disabled_skills,
            more_roots=with_admin(call.server.runtime.skill_roots),
            fresh=True,
        )
        call.server.runtime.watch_skills(os.path.abspath(cwd), config, found)
        problems = [SkillProblem(path=error.path, message=error.message) for error in found.errors]
        entries.append(SkillsEntry(cwd=cwd, skills=[_skill(skill) for skill in found.skills], errors=problems))
    return SkillsListResult(data=entries)


def _skill(skill: Skill) -> SkillInfo:
    return SkillInfo(
        name=skill.name,
        description=skill.description,
        short_description=skill.short_description,
        interface=None if skill.interface is None else {camel(key): value for key, value in skill.interface.items()},
        dependencies=skill.dependencies,
        path=skill.path,
        scope=skill.scope,
        enabled=skill.enabled,
    )


async def feature_list(call: Call, params: FeatureListParams) -> Wire:
    names = list(FEATURES)
    chosen, following, _ = page(names, names, cursor=params.cursor, limit=params.limit, descending=False)
    enabled = await asyncio.to_thread(lambda: call.server.runtime.config_for(None).features)
    features = [
        Feature(
            name=name,
            stage=_STAGES.get(FEATURES[name][0], FEATURES[name][0]),  # pyright: ignore[reportArgumentType]
            enabled=enabled.get(name, FEATURES[name][1]),
            default_enabled=FEATURES[name][1],
        )
        for name in chosen
    ]
    return FeatureListResult(data=features, next_cursor=following)


async def feature_set(call: Call, params: FeatureEnablement) -> Wire:
    """Flags for threads that are opened from now on. Those that Spindle does not have are left out of the answer."""
    known = {
        name: value
        for name, value in params.enablement.items()
        if name in FEATURES and FEATURES[name][0] in ("stable", "beta", "experimental")
    }
    call.server.runtime.features.update(known)
    return FeatureEnablement(enablement=known)


async def extra_roots_set(call: Call, params: ExtraRootsParams) -> Wire:
    for root in params.extra_roots:
        if not os.path.isabs(root) or "\0" in root:
            raise RpcError(f"Invalid request: a root of skills must be an absolute path, not {root!r}")
    call.server.runtime.set_skill_roots(params.extra_roots)
    return Nothing()


async def capabilities_read(call: Call, params: Nothing) -> Wire:
    """What the configured provider does itself. Images are made by no provider here."""
    config = call.server.config
    return CapabilitiesResult(web_search=config.provider.wire_api == "responses" and config.web_search != "disabled")


async def mode_list(call: Call, params: Nothing) -> Wire:
    """How a turn can be run: `collaborationMode` of turn/start."""
    return ModeListResult(data=[Mode(name="Plan", mode="plan"), Mode(name="Default", mode="default")])


METHODS = (
    Method(name="model/list", params=ModelListParams, result=ModelListResult, run=model_list),
    Method(name="skills/list", params=SkillsListParams, result=SkillsListResult, run=skills_list),
    Method(name="experimentalFeature/list", params=FeatureListParams, result=FeatureListResult, run=feature_list),
    Method(
        name="experimentalFeature/enablement/set", params=FeatureEnablement, result=FeatureEnablement, run=feature_set
    ),
    Method(name="skills/extraRoots/set", params=ExtraRootsParams, result=Nothing, run=extra_roots_set),
    Method(name="modelProvider/capabilities/read", params=Nothing, result=CapabilitiesResult, run=capabilities_read),
    Method(name="collaborationMode/list", params=Nothing, result=ModeListResult, run=mode_list, is_experimental=True),
)
