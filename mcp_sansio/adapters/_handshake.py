"""What the revisions with a handshake share: ``initialize``, sessions, requests in both directions, plain results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from mcp_sansio.asking import ELICIT
from mcp_sansio.call import Call, ClientInfo
from mcp_sansio.immediate import Described
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import FailureKind, InputRequest
from mcp_sansio.registry import Registry
from mcp_sansio.schema import HeaderParam
from mcp_sansio.types import JSON, Implementation, RequestId, to_wire
from mcp_sansio.wire.jsonrpc import encode_request

from .base import Adapter, client_info
from .failures import COMMON_FAILURES, FailureCode
from .params import FIELDS, fault_of_params
from .projection import pick

HANDSHAKE_METHODS: Mapping[str, Operation] = {
    "initialize": Operation.DESCRIBE,
    "notifications/initialized": Operation.HANDSHAKE_COMPLETE,
    "notifications/cancelled": Operation.CANCEL,
    "ping": Operation.PING,
    "tools/list": Operation.LIST_TOOLS,
    "tools/call": Operation.CALL_TOOL,
    "resources/list": Operation.LIST_RESOURCES,
    "resources/templates/list": Operation.LIST_RESOURCE_TEMPLATES,
    "resources/read": Operation.READ_RESOURCE,
    "resources/subscribe": Operation.SUBSCRIBE,
    "resources/unsubscribe": Operation.UNSUBSCRIBE,
    "prompts/list": Operation.LIST_PROMPTS,
    "prompts/get": Operation.GET_PROMPT,
    "completion/complete": Operation.COMPLETE,
    "logging/setLevel": Operation.SET_LOG_LEVEL,
}

_FIELDS = {**FIELDS, Operation.DESCRIBE: (("protocolVersion", True, str, "a string"),)}

HANDSHAKE_FAILURES: Mapping[FailureKind, FailureCode] = {
    **COMMON_FAILURES,
    FailureKind.UNKNOWN_METHOD: (-32601, 200),
    FailureKind.UNKNOWN_TARGET: (-32602, 200),
    FailureKind.RESOURCE_NOT_FOUND: (-32002, 200),
    FailureKind.INVALID_PARAMS: (-32602, 200),
    FailureKind.INVALID_ARGUMENTS: (-32602, 200),
    FailureKind.HEADER_MISMATCH: (-32600, 400),
    FailureKind.UNSUPPORTED_VERSION: (-32600, 400),
    FailureKind.MISSING_CAPABILITY: (-32600, 200),
    FailureKind.INVALID_STATE: (-32602, 200),
}


class HandshakeAdapter(Adapter):
    """A revision that starts with ``initialize``."""

    has_handshake: ClassVar[bool] = True
    resumes_streams: ClassVar[bool] = True
    #: HTTP requests after the handshake name the revision in a header.
    has_version_header: ClassVar[bool] = True
    methods: ClassVar[Mapping[str, Operation]] = HANDSHAKE_METHODS
    failures: ClassVar[Mapping[FailureKind, FailureCode]] = HANDSHAKE_FAILURES
    askable: ClassVar[Mapping[str, JSON]] = {"sampling": {}, "roots": {}}

    def fault_of_request(self, operation: Operation, params: Mapping[str, JSON]) -> str | None:
        """The common checks, and those of the handshake's own params (basic/lifecycle, "Initialization")."""
        return fault_of_params(operation, params, _FIELDS)

    def client_info_for(self, source: Mapping[str, JSON]) -> ClientInfo:
        """Who the client of a handshake says it is. Members that nobody knows are kept."""
        return client_info(source.get("clientInfo"), source.get("capabilities"))

    def _described(self, call: Call, registry: Registry, described: Described) -> dict[str, JSON]:
        body: dict[str, JSON] = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities(registry, announces=described.announces),
            "serverInfo": self.server_info(registry),
        }
        if registry.instructions is not None:
            body["instructions"] = registry.instructions
        return self.finished(body, registry)

    def client_headers(
        self, method: str, params: Mapping[str, JSON], mirrored: Sequence[HeaderParam] = ()
    ) -> dict[str, str]:
        """After the handshake, requests name what was negotiated (basic/transports, "Protocol Version Header")."""
        named = self.has_version_header and method != "initialize"
        return {"MCP-Protocol-Version": self.version} if named else {}

    def client_handshake_params(self, client: Implementation, capabilities: Mapping[str, JSON]) -> dict[str, JSON]:
        """See `Adapter.client_handshake_params` (basic/lifecycle, "Initialization")."""
        info = pick(to_wire(client), self.shape.implementation)
        return {"protocolVersion": self.version, "capabilities": dict(capabilities), "clientInfo": info}

    def client_offered(self, result: Mapping[str, JSON]) -> list[str] | None:
        """The one revision that a handshake's result settles on."""
        version = result.get("protocolVersion")
        return [version] if isinstance(version, str) else None

    def client_server_info(self, result: Mapping[str, JSON]) -> JSON:
        """See `Adapter.client_server_info` (schema, InitializeResult)."""
        return result.get("serverInfo")

    def encode_question(self, question_id: RequestId, request: InputRequest) -> bytes:
        """A question to push. URL mode needs an ``elicitationId`` here (client/elicitation, "URL Mode")."""
        params = dict(request.get("params", {}))
        if request["method"] == ELICIT and "url" in params:
            params.setdefault("elicitationId", str(question_id))
        return encode_request(question_id, request["method"], params)
