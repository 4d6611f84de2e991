"""Revision 2026-07-28: stateless. Every request describes itself, questions are results, one stream carries changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mcp_sansio.operation import Operation
from mcp_sansio.outcome import FailureKind

from ._envelope import EnvelopeAdapter
from .failures import COMMON_FAILURES, FailureCode
from .projection import FULL, Shape


class Adapter2026_07_28(EnvelopeAdapter):
    """The revision of 2026-07-28."""

    version: ClassVar[str] = "2026-07-28"
    can_ask: ClassVar[bool] = True

    methods: ClassVar[Mapping[str, Operation]] = {
        "server/discover": Operation.DESCRIBE,
        "notifications/cancelled": Operation.CANCEL,
        "tools/list": Operation.LIST_TOOLS,
        "tools/call": Operation.CALL_TOOL,
        "resources/list": Operation.LIST_RESOURCES,
        "resources/templates/list": Operation.LIST_RESOURCE_TEMPLATES,
        "resources/read": Operation.READ_RESOURCE,
        "prompts/list": Operation.LIST_PROMPTS,
        "prompts/get": Operation.GET_PROMPT,
        "completion/complete": Operation.COMPLETE,
        "subscriptions/listen": Operation.LISTEN,
    }

    # basic, "Error Codes", and the statuses of basic/transports/streamable-http.
    failures: ClassVar[Mapping[FailureKind, FailureCode]] = {
        **COMMON_FAILURES,
        FailureKind.UNKNOWN_METHOD: (-32601, 404),
        FailureKind.UNKNOWN_TARGET: (-32602, 400),
        FailureKind.RESOURCE_NOT_FOUND: (-32602, 400),
        FailureKind.INVALID_PARAMS: (-32602, 400),
        FailureKind.INVALID_ARGUMENTS: (-32602, 400),
        FailureKind.HEADER_MISMATCH: (-32020, 400),
        FailureKind.UNSUPPORTED_VERSION: (-32022, 400),
        FailureKind.MISSING_CAPABILITY: (-32021, 400),
        FailureKind.INVALID_STATE: (-32602, 400),
    }

    shape: ClassVar[Shape] = FULL
