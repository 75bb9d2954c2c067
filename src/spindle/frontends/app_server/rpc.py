"""The app-server's words for the frames of JSON-RPC, which all front ends that speak it share."""

from spindle.frontends.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    OVERLOADED,
    BadFrame,
    Notification,
    Request,
    RequestId,
    Response,
    RpcError,
    frame,
    read_frame,
    read_params,
)

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "OVERLOADED",
    "BadFrame",
    "Notification",
    "Request",
    "RequestId",
    "Response",
    "RpcError",
    "frame",
    "read_frame",
    "read_params",
]
