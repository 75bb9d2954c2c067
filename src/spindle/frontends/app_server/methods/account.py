"""`account/*`: who is signed in, signing in and out, and what the provider still allows."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any, Literal
from uuid import UUID

from spindle.auth.login import sign_out, store_api_key
from spindle.auth.store import StoredLogin, read_login, write_kept
from spindle.errors import SpindleError
from spindle.frontends.app_server.method import After, Call, Method, Nothing
from spindle.frontends.app_server.notifications import AccountLoginCompleted, AccountUpdated
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.frontends.app_server.usage import rate_limits

_BROUGHT = "chatgptAuthTokens"


class AccountReadParams(Wire, frozen=True, kw_only=True):
    refresh_token: bool = False
    """Renew the tokens of a ChatGPT sign-in first, if that works."""


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
    """`apiKey`, `chatgpt`, `chatgptDeviceCode` or `chatgptAuthTokens`."""
    api_key: str | None = None
    access_token: str | None = None
    chatgpt_account_id: str | None = None
    chatgpt_plan_type: str | None = None


class ApiKeyLogin(Wire, frozen=True, kw_only=True, tag_field="type", tag="apiKey"):
    pass


class BrowserLoginBegun(Wire, frozen=True, kw_only=True, tag_field="type", tag="chatgpt"):
    login_id: str
    auth_url: str
    """The client opens it in a browser on this machine."""


class DeviceLoginBegun(Wire, frozen=True, kw_only=True, tag_field="type", tag="chatgptDeviceCode"):
    login_id: str
    verification_url: str
    user_code: str


class TokensLogin(Wire, frozen=True, kw_only=True, tag_field="type", tag="chatgptAuthTokens"):
    pass


LoginStarted = ApiKeyLogin | BrowserLoginBegun | DeviceLoginBegun | TokensLogin


class LoginCancelParams(Wire, frozen=True, kw_only=True):
    login_id: str


class LoginCancelResult(Wire, frozen=True, kw_only=True):
    status: Literal["canceled", "notFound"]


class RateLimitsResult(Wire, frozen=True, kw_only=True):
    rate_limits: dict[str, Any]
    rate_limits_by_limit_id: dict[str, Any] | None = None


async def account_read(call: Call, params: AccountReadParams) -> Wire:
    provider = call.server.config.provider
    is_needed = (provider.is_openai or provider.requires_openai_auth) and not provider.env_key
    login = read_login(call.server.config.login) if is_needed else None
    if login is not None and login.uses_chatgpt and login.refresh_token is not None and params.refresh_token:
        from spindle.auth.refresh import renew_login  # seldom asked for

        with suppress(SpindleError):  # whoever uses the login next is told of it
            login = await renew_login(call.server.config.login, login, os.environ, call.server.clock)
    return AccountReadResult(account=_account(login), requires_openai_auth=is_needed)


def _account(login: StoredLogin | None) -> ApiKeyAccount | ChatGptAccount | None:
    if login is None:
        return None
    if not login.uses_chatgpt:
        return ApiKeyAccount()
    return ChatGptAccount(email=login.email, plan_type=login.plan or "unknown")


async def login_start(call: Call, params: LoginStartParams) -> Wire | After:
    server, settings = call.server, call.server.config.login
    if params.type != _BROUGHT and _is_brought(call):
        raise RpcError(
            "the client has signed in with its own tokens: renew them with account/login/start "
            "(chatgptAuthTokens), or end that with account/logout"
        )
    match params.type:
        case "apiKey":
            await server.logins.give_up()
            await asyncio.to_thread(store_api_key, settings, (params.api_key or "").strip())
            return After(ApiKeyLogin(), lambda: _tell(call, "apikey"))
        case "chatgpt" | "chatgptDeviceCode" | "chatgptAuthTokens":
            from spindle.auth.new_login import check_allowed  # only to sign in with ChatGPT

            check_allowed(settings)
        case _:
            raise RpcError(
                f"there is no sign-in by {params.type!r}: use apiKey, chatgpt, chatgptDeviceCode or chatgptAuthTokens"
            )
    if params.type == _BROUGHT:
        return await _take_tokens(call, params)
    if params.type == "chatgpt":
        begun = await server.logins.in_browser(settings, call.client.originator)
        return BrowserLoginBegun(login_id=begun.id, auth_url=begun.address)
    begun = await server.logins.on_device(settings, call.client.originator)
    return DeviceLoginBegun(login_id=begun.id, verification_url=begun.address, user_code=begun.user_code)


async def _take_tokens(call: Call, params: LoginStartParams) -> After:
    """Tokens that the client looks after: they are kept in memory, and it is asked when they are no longer taken."""
    from spindle.auth.refresh import brought_login, brought_tokens  # few clients bring any

    server, settings = call.server, call.server.config.login
    data = brought_login(params.access_token, params.chatgpt_account_id, params.chatgpt_plan_type)
    if settings.workspaces and params.chatgpt_account_id not in settings.workspaces:
        raise RpcError("forced_chatgpt_workspace_id allows another workspace only")
    await server.logins.give_up()
    write_kept(settings, data, "memory")
    brought_tokens[settings.home] = server.logins.ask_client
    return After(TokensLogin(), lambda: _tell(call, _BROUGHT))


def _is_brought(call: Call) -> bool:
    login = read_login(call.server.config.login)
    return login is not None and login.mode == _BROUGHT


def _tell(call: Call, mode: Literal["apikey", "chatgptAuthTokens"]) -> None:
    login = read_login(call.server.config.login) if mode == _BROUGHT else None
    call.server.tell_all(AccountLoginCompleted(login_id=None, success=True, error=None))
    call.server.tell_all(AccountUpdated(auth_mode=mode, plan_type=login.plan if login is not None else None))


async def login_cancel(call: Call, params: LoginCancelParams) -> Wire:
    try:
        login_id = str(UUID(params.login_id))
    except ValueError:
        raise RpcError(f"invalid login id: {params.login_id}") from None
    return LoginCancelResult(status="canceled" if call.server.logins.cancel(login_id) else "notFound")


async def logout(call: Call, params: Nothing) -> After:
    from spindle.auth.refresh import brought_tokens  # seldom asked for

    await call.server.logins.give_up()
    await sign_out(call.server.config.login)
    brought_tokens.pop(call.server.home, None)
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
    Method(name="account/login/start", params=LoginStartParams, result=LoginStarted, run=login_start),
    Method(name="account/login/cancel", params=LoginCancelParams, result=LoginCancelResult, run=login_cancel),
    Method(name="account/logout", params=Nothing, result=Nothing, run=logout),
    Method(name="account/rateLimits/read", params=Nothing, result=RateLimitsResult, run=rate_limits_read),
)
