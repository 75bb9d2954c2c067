"""`account/*`: who is signed in, and what the provider still allows."""

from __future__ import annotations

from typing import Any, Literal

from spindle.auth.login import store_api_key
from spindle.auth.store import StoredLogin, claims_of, read_login, remove_login
from spindle.frontends.app_server.method import After, Call, Method, Nothing
from spindle.frontends.app_server.notifications import AccountLoginCompleted, AccountUpdated
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.frontends.app_server.usage import rate_limits

_CLAIMS = "https://api.openai.com/auth"


class AccountReadParams(Wire, frozen=True, kw_only=True):
    refresh_token: bool = False
    """Taken and ignored: tokens are renewed when they are used."""


class ApiKeyAccount(Wire, frozen=True, kw_only=True, tag_field="type", tag="apiKey"):
    pass


class ChatGptAccount(Wire, frozen=True, kw_only=True, tag_field="type", tag="chatgpt"):
    email: str | None
    plan_type: str
    workspace_name: None = None


class AccountReadResult(Wire, frozen=True, kw_only=True):
    account: ApiKeyAccount | ChatGptAccount | None
    requires_openai_auth: bool


class LoginStartParams(Wire, frozen=True, kw_only=True):
    type: str
    api_key: str | None = None


class LoginStartResult(Wire, frozen=True, kw_only=True):
    type: Literal["apiKey"] = "apiKey"


class RateLimitsResult(Wire, frozen=True, kw_only=True):
    rate_limits: dict[str, Any]
    rate_limits_by_limit_id: dict[str, Any] | None = None


async def account_read(call: Call, params: AccountReadParams) -> Wire:
    provider = call.server.config.provider
    is_needed = (provider.is_openai or provider.requires_openai_auth) and not provider.env_key
    login = read_login(call.server.home) if is_needed else None
    return AccountReadResult(account=_account(login), requires_openai_auth=is_needed)


def _account(login: StoredLogin | None) -> ApiKeyAccount | ChatGptAccount | None:
    if login is None:
        return None
    if not login.uses_chatgpt:
        return ApiKeyAccount()
    claims = claims_of(login.id_token)
    about = claims.get(_CLAIMS)
    plan = about.get("chatgpt_plan_type") if isinstance(about, dict) else None
    email = claims.get("email")
    return ChatGptAccount(
        email=email if isinstance(email, str) else None, plan_type=plan if isinstance(plan, str) else "unknown"
    )


async def login_start(call: Call, params: LoginStartParams) -> Wire | After:
    if params.type != "apiKey":
        raise RpcError(f"sign-in by {params.type!r} is not supported; use an API key")
    if call.server.config.forced_login_method == "chatgpt":
        raise RpcError("forced_login_method is chatgpt: signing in with an API key is not allowed")
    store_api_key(call.server.home, (params.api_key or "").strip())

    def tell() -> None:
        call.server.tell_all(AccountLoginCompleted(login_id=None, success=True, error=None))
        call.server.tell_all(AccountUpdated(auth_mode="apikey"))

    return After(LoginStartResult(), tell)


async def logout(call: Call, params: Nothing) -> After:
    remove_login(call.server.home)
    return After(Nothing(), lambda: call.server.tell_all(AccountUpdated(auth_mode=None)))


async def rate_limits_read(call: Call, params: Nothing) -> Wire:
    """What the provider said with the last answer in any loaded thread."""
    for thread in reversed(call.server.threads.values()):
        snapshot = thread.live.rate_limits
        if snapshot is not None:
            return RateLimitsResult(rate_limits=rate_limits(snapshot))
    raise RpcError("the provider has not reported any rate limits yet; it does so with its answers, if at all")


METHODS = (
    Method(name="account/read", params=AccountReadParams, result=AccountReadResult, run=account_read),
    Method(name="account/login/start", params=LoginStartParams, result=LoginStartResult, run=login_start),
    Method(name="account/logout", params=Nothing, result=Nothing, run=logout),
    Method(name="account/rateLimits/read", params=Nothing, result=RateLimitsResult, run=rate_limits_read),
)
