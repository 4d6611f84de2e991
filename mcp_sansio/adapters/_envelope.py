"""What the revisions without a handshake share: each message says everything about itself in its ``_meta``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, ClassVar

from mcp_sansio.asking import ELICIT
from mcp_sansio.call import Call, ClientInfo, Decoded, DecodeFailure
from mcp_sansio.changes import Change, ChangeKind
from mcp_sansio.immediate import LISTEN_FILTER, LISTEN_URIS, Described, Listening
from mcp_sansio.notices import Acknowledged, Notice
from mcp_sansio.operation import HANDLED, Operation
from mcp_sansio.outcome import Failure, FailureKind, InputRequest, NeedsInput, Rejected
from mcp_sansio.registry import Registry
from mcp_sansio.schema import HeaderParam
from mcp_sansio.specs import CacheHint, ToolSpec
from mcp_sansio.types import JSON, LOG_LEVELS, Implementation, LogLevel, ProgressToken, RequestId, to_wire
from mcp_sansio.wire.headers import decode_value, encode_value
from mcp_sansio.wire.json import encode
from mcp_sansio.wire.jsonrpc import Envelope, encode_notification

from .base import SPLICE, Adapter, client_info
from .client_role import CHANGE_METHODS, Asked, read_asked
from .params import TARGET, fault_of_params
from .preamble import META_VERSION, VERSION_HEADER, Preamble
from .projection import pick

META = "io.modelcontextprotocol/"
CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL = META + "clientInfo", META + "clientCapabilities", META + "logLevel"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SERVER_INFO, SUBSCRIPTION_ID = META + "serverInfo", META + "subscriptionId"

_CALL_TOOL = Operation.CALL_TOOL  # named once: see `mcp_sansio.operation`
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
#: What a mirrored integer may be at most: more is not exact everywhere on the way ("Schema Extension").
_MAX_INTEGER = 2**53 - 1


class EnvelopeAdapter(Adapter):
    """A revision whose requests carry their revision, client and capabilities themselves."""

    disconnect_cancels: ClassVar[bool] = True
    null_error_id: ClassVar[bool] = False
    askable: ClassVar[Mapping[str, JSON]] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
    mirrors_arguments: ClassVar[bool] = True
    # The headers that mirror the body: its method, what the call is about, and the beginning of those of arguments.
    method_header: ClassVar[str] = "mcp-method"
    name_header: ClassVar[str] = "mcp-name"
    param_header: ClassVar[str] = "mcp-param-"
    mirroring_headers: ClassVar[tuple[str, ...]] = (method_header, name_header)

    # Inbound

    def check_http(self, preamble: Preamble, registry: Registry) -> None:
        """The headers mirror the body (basic/transports/streamable-http, "Server Validation").

        Notifications are let through: no header is defined for them.
        """
        body = preamble.body
        if not isinstance(body, dict) or "id" not in body or preamble.method is None:
            return
        headers, stated = preamble.headers.fields, preamble.meta_version
        if preamble.header_version is None or preamble.header_version != stated:
            _check_version(headers, stated)
        if headers.get(self.method_header) != preamble.method:
            _check_equal(headers, self.method_header, preamble.method)
        operation = self.methods.get(preamble.method)
        params = body.get("params")
        # The operations of a handler are also those whose target has a header ("Standard Request Headers").
        if operation not in HANDLED or not isinstance(params, dict):
            return
        target = params.get(TARGET[operation])
        if isinstance(target, str):
            _check_encoded(headers, self.name_header, target)
        spec = registry.tools.get(target) if operation is _CALL_TOOL and isinstance(target, str) else None
        if spec is not None and spec.headers:
            _check_params(headers, self.param_header, spec, params.get("arguments"))

    def decode_reply(self, envelope: Envelope) -> Decoded | None:
        """A client must not send responses here (basic/transports/streamable-http, "Sending Messages")."""
        failure = Failure(FailureKind.MALFORMED, "this protocol revision has no responses from clients")
        return DecodeFailure(None, failure, replies=False)

    def fault_of_request(self, operation: Operation, params: Mapping[str, JSON]) -> str | None:
        """Every request names its revision and its client's capabilities (basic, "Per-request protocol fields")."""
        meta = params.get("_meta")
        fault = "params._meta must be an object" if not isinstance(meta, dict) else _fault_of_meta(meta)
        if fault is None and "inputResponses" in params:
            fault = _fault_of_answers(params["inputResponses"])
        return fault or fault_of_params(operation, params)

    def build_call(self, operation: Operation, envelope: Envelope, client: ClientInfo, log_level: str | None) -> Call:
        """The call, with what the message says of its client."""
        # Only a request's `_meta` was checked, and only a request's is of use.
        params = envelope.params
        meta = params["_meta"] if envelope.id is not None else {}
        client = client_info(meta.get(CLIENT_INFO), meta.get(CLIENT_CAPABILITIES))
        call = super().build_call(operation, envelope, client, meta.get(LOG_LEVEL))
        if operation in HANDLED:
            call.answers = params.get("inputResponses") or {}
            call.request_state = params.get("requestState")
        return call

    def client_info_for(self, source: Mapping[str, JSON]) -> ClientInfo:
        """Who the client of a message says it is. What it does not declare it does not have."""
        return client_info(source.get(CLIENT_INFO), source.get(CLIENT_CAPABILITIES))

    # Outbound

    def finished(self, body: dict[str, JSON], registry: Registry, hint: CacheHint | None = None) -> dict[str, JSON]:
        """Results say their type and their server, and how long they may be kept (server/utilities/caching)."""
        body.setdefault("resultType", "complete")
        info = registry.shown_info.get(self.version) or self.server_info(registry)
        body["_meta"] = {**body["_meta"], SERVER_INFO: info} if "_meta" in body else {SERVER_INFO: info}
        if hint is not None:
            body["ttlMs"], body["cacheScope"] = hint.ttl_ms, hint.scope
        return body

    def encode_input_required(self, call: Call, registry: Registry, needs: NeedsInput) -> dict[str, JSON]:
        """The questions are the result (basic/patterns/mrtr, "InputRequiredResult")."""
        if needs.in_arguments:
            return super().encode_input_required(call, registry, needs)
        requests = {key: self._question(request) for key, request in needs.requests.items()}
        body: dict[str, JSON] = {"resultType": "input_required", "inputRequests": requests}
        if needs.request_state is not None:
            body["requestState"] = needs.request_state
        return self.finished(body, registry)

    def _question(self, request: InputRequest) -> InputRequest:
        params = request.get("params", {})
        if request["method"] != ELICIT or "elicitationId" not in params:
            return request
        return {**request, "params": {name: value for name, value in params.items() if name != "elicitationId"}}

    def change_frame(self, change: Change) -> tuple[bytes, bytes | None]:
        """Every announcement names its subscription (basic/patterns/subscriptions, "Receiving Notifications")."""
        params: dict[str, JSON] = {"_meta": {SUBSCRIPTION_ID: SPLICE}}
        if change.uri is not None:
            params["uri"] = change.uri
        whole = encode_notification(CHANGE_METHODS[change.kind], params)
        # `_meta` comes before the URI.
        head, tail = whole.split(encode(SPLICE), 1)
        return head, tail

    def encode_acknowledgement(self, call: Call, listening: Listening) -> bytes:
        """The first message of a subscription: what of the filter is honoured."""
        honoured: dict[str, JSON] = {member: True for member, kind in LISTEN_FILTER.items() if kind in listening.kinds}
        if listening.uris:
            honoured[LISTEN_URIS] = list(listening.uris)
        params = {"_meta": {SUBSCRIPTION_ID: call.id}, "notifications": honoured}
        return encode_notification(ACKNOWLEDGED, params)

    # The client role

    def client_headers(
        self, method: str, params: Mapping[str, JSON], mirrored: Sequence[HeaderParam] = ()
    ) -> dict[str, str]:
        """The headers mirror the body (basic/transports/streamable-http, "Client Behavior")."""
        headers = {_spelled(VERSION_HEADER): self.version, _spelled(self.method_header): method}
        operation = self.methods.get(method)
        if operation in HANDLED:
            headers[_spelled(self.name_header)] = encode_value(params[TARGET[operation]])
        for plan in mirrored:
            value = _at(params.get("arguments"), plan.path)
            # Of another type it has no header; that it is wrong is the server's to say.
            if isinstance(value, str | int):
                headers[_spelled(self.param_header) + plan.name] = encode_value(value)
        return headers

    def client_decorate_params(
        self,
        params: Mapping[str, JSON],
        client: Implementation,
        capabilities: Mapping[str, JSON],
        *,
        progress_token: ProgressToken | None = None,
        log_level: LogLevel | None = None,
    ) -> dict[str, JSON]:
        """Every request says who sends it and what they can do (basic, "Per-request protocol fields")."""
        decorated = super().client_decorate_params(params, client, capabilities, progress_token=progress_token)
        said: dict[str, JSON] = {
            META_VERSION: self.version,
            CLIENT_INFO: pick(to_wire(client), self.shape.implementation),
            CLIENT_CAPABILITIES: dict(capabilities),
        }
        if log_level is not None:
            said[LOG_LEVEL] = log_level
        return {**decorated, "_meta": {**decorated.get("_meta", {}), **said}}

    def client_answered_params(
        self,
        params: Mapping[str, JSON],
        answers: Mapping[str, JSON],
        state: str | None,
        *,
        in_arguments: bool | None = None,
    ) -> dict[str, JSON]:
        """The retry has the answers beside the original params (basic/patterns/mrtr, "InputResponses").

        No state came, no state goes.
        """
        if in_arguments:
            return super().client_answered_params(params, answers, state)
        answered = {**params, "inputResponses": dict(answers)} if answers else dict(params)
        return answered if state is None else {**answered, "requestState": state}

    def client_listen_params(self, kinds: Collection[ChangeKind], uris: Collection[str]) -> dict[str, JSON]:
        """See `Adapter.client_listen_params` (basic/patterns/subscriptions, "Notification Filter")."""
        wanted: dict[str, JSON] = {member: True for member, kind in LISTEN_FILTER.items() if kind in kinds}
        if uris:
            wanted[LISTEN_URIS] = list(uris)
        return {"notifications": wanted}

    def client_input_requests(self, result: Mapping[str, JSON]) -> tuple[Mapping[str, InputRequest], str | None]:
        """See `Adapter.client_input_requests` (basic/patterns/mrtr, "InputRequiredResult")."""
        if result.get("resultType") != "input_required":
            return super().client_input_requests(result)
        return result.get("inputRequests", {}), result.get("requestState")

    def client_asked(self, operation: Operation, result: Mapping[str, JSON]) -> Asked | None:
        """A result without a type is complete; one of a type that nobody knows is not to be used (schema, Result)."""
        kind = result.get("resultType", "complete")
        if kind == "complete":
            return super().client_asked(operation, result)
        if kind != "input_required" or operation not in HANDLED:
            raise Rejected(Failure(FailureKind.INVALID_PARAMS, f"resultType {str(kind)[:100]!r} is not known here"))
        return read_asked(result.get("inputRequests"), result.get("requestState"))

    def client_offered(self, result: Mapping[str, JSON]) -> list[str] | None:
        """The revisions that the server speaks (server/discover, "DiscoverResult")."""
        versions = result.get("supportedVersions")
        if not isinstance(versions, list) or not all(isinstance(version, str) for version in versions):
            return None
        return versions

    def client_server_info(self, result: Mapping[str, JSON]) -> JSON:
        """See `Adapter.client_server_info` (server/discover, "DiscoverResult")."""
        meta = result.get("_meta")
        return meta.get(SERVER_INFO) if isinstance(meta, dict) else None

    def client_notice(self, method: str, params: Mapping[str, JSON]) -> Notice | None:
        """See `Adapter.client_notice` (basic/patterns/subscriptions, "Acknowledgment")."""
        if method != ACKNOWLEDGED:
            return super().client_notice(method, params)
        honoured = params.get("notifications")
        honoured = honoured if isinstance(honoured, dict) else {}
        uris = honoured.get(LISTEN_URIS)
        return Acknowledged(
            self.client_subscription(params),
            {kind for member, kind in LISTEN_FILTER.items() if honoured.get(member) is True},
            {uri for uri in uris if isinstance(uri, str)} if isinstance(uris, list) else set(),
        )

    def client_subscription(self, params: Mapping[str, JSON]) -> RequestId | None:
        """Every message of a subscription names it (basic/patterns/subscriptions, "Receiving Notifications")."""
        meta = params.get("_meta")
        named = meta.get(SUBSCRIPTION_ID) if isinstance(meta, dict) else None
        return named if isinstance(named, str | int) and not isinstance(named, bool) else None

    def _described(self, call: Call, registry: Registry, described: Described) -> dict[str, JSON]:
        body: dict[str, JSON] = {
            "supportedVersions": list(described.supported),
            "capabilities": self.capabilities(registry, announces=described.announces),
        }
        if registry.instructions is not None:
            body["instructions"] = registry.instructions
        return self.finished(body, registry, registry.list_cache)

    def _listening_ended(self, call: Call, registry: Registry, listening: Listening) -> dict[str, JSON]:
        return self.finished({"_meta": {SUBSCRIPTION_ID: call.id}}, registry)


def _fault_of_meta(meta: Mapping[str, JSON]) -> str | None:
    if not isinstance(meta.get(META_VERSION), str):
        return f"params._meta[{META_VERSION!r}] must be a string"
    if not isinstance(meta.get(CLIENT_CAPABILITIES), dict):
        return f"params._meta[{CLIENT_CAPABILITIES!r}] must be an object"
    if not isinstance(meta.get(CLIENT_INFO), dict | None):
        return f"params._meta[{CLIENT_INFO!r}] must be an object"
    if meta.get(LOG_LEVEL) is not None and meta[LOG_LEVEL] not in LOG_LEVELS:
        return f"params._meta[{LOG_LEVEL!r}] must be one of {', '.join(LOG_LEVELS)}"
    return None


def _fault_of_answers(answers: JSON) -> str | None:
    if answers is None:
        return None
    if not isinstance(answers, dict):
        return "params.inputResponses must be an object"
    wrong = next((key for key, value in answers.items() if not isinstance(value, dict)), None)
    return None if wrong is None else f"params.inputResponses[{wrong[:100]!r}] must be an object"


def _mismatch(text: str) -> Rejected:
    return Rejected(Failure(FailureKind.HEADER_MISMATCH, text))


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if value is None:
        raise _mismatch(f"the header {_spelled(name)} is missing")
    return value


def _check_version(headers: Mapping[str, str], stated: Any) -> None:
    value = _header(headers, VERSION_HEADER)
    if isinstance(stated, str) and value.strip() != stated:
        raise _mismatch(f"the header {_spelled(VERSION_HEADER)} does not match params._meta[{META_VERSION!r}]")


def _check_equal(headers: Mapping[str, str], name: str, wanted: str) -> None:
    if _header(headers, name).strip() != wanted:
        raise _mismatch(f"the header {_spelled(name)} does not match the body")


def _check_encoded(headers: Mapping[str, str], name: str, wanted: str) -> None:
    value = decode_value(_header(headers, name))
    if value is None:
        raise _mismatch(f"the header {_spelled(name)} is malformed")
    if value != wanted:
        raise _mismatch(f"the header {_spelled(name)} does not match the body")


def _check_params(headers: Mapping[str, str], prefix: str, spec: ToolSpec, arguments: JSON) -> None:
    for plan in spec.headers:
        name = prefix + plan.name.lower()
        wanted = _at(arguments, plan.path)
        if wanted is None:
            if name in headers:
                raise _mismatch(f"the header {_spelled(name)} is set, but the argument it mirrors is not")
            continue
        value = decode_value(_header(headers, name))
        if value is None:
            raise _mismatch(f"the header {_spelled(name)} is malformed")
        if isinstance(wanted, int | float) and abs(wanted) > _MAX_INTEGER:
            bounds = f"-{_MAX_INTEGER} and {_MAX_INTEGER}"
            raise _mismatch(f"the argument that the header {_spelled(name)} mirrors must lie within {bounds}")
        if not _mirrors(value, wanted):
            raise _mismatch(f"the header {_spelled(name)} does not match the argument it mirrors")


def _at(arguments: JSON, path: tuple[str, ...]) -> JSON:
    value = arguments
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _mirrors(text: str, value: JSON) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, str):
        return text == value
    if not isinstance(value, int | float):
        return False
    # "Servers SHOULD compare the header value and the body value numerically" ("Server Validation"): exactly so, since
    # a float would round what stands on the one side and not on the other.
    return len(text) < 64 and re.fullmatch(_NUMBER, text) is not None and Decimal(text) == value


@cache
def _spelled(name: str) -> str:
    """A header's name as the specification writes it."""
    return "MCP-Protocol-Version" if name == VERSION_HEADER else name.title()
