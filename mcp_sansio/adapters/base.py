"""What an adapter is: everything that one revision does its own way, behind one neutral surface.

An adapter holds no state of a request and is shared by all of them. Whoever is above it branches on its flags and never
on its version. What revisions have in common is here; what a family of them shares is in `_handshake` and `_envelope`;
what one revision has for itself is in its own file, so that deleting the file deletes the revision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from mcp_sansio.call import NOBODY, Call, ClientInfo, Decoded, DecodeFailure, Reply
from mcp_sansio.changes import Change
from mcp_sansio.immediate import Described, Empty, Listening, ListPage
from mcp_sansio.in_arguments import question_result
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import Failure, FailureKind, InputRequest, NeedsInput, Outcome, Rejected, Text, Value
from mcp_sansio.registry import Registry
from mcp_sansio.specs import CacheHint, Spec, ToolSpec
from mcp_sansio.types import (
    JSON,
    UNSET,
    CallToolResult,
    Completion,
    GetPromptResult,
    ReadResourceResult,
    RequestId,
    to_wire,
)
from mcp_sansio.wire.json import encode
from mcp_sansio.wire.jsonrpc import (
    Envelope,
    classify,
    encode_error,
    encode_notification,
    encode_response,
    encode_result,
)
from mcp_sansio.wire.jsonrpc import Shape as MessageShape

from .client_role import CHANGE_METHODS, ClientRole
from .descriptions import Descriptions
from .failures import FailureCode
from .params import TARGET, fault_of_params
from .preamble import Preamble
from .projection import Shape, project_content, project_contents, project_message

#: What stands in JSON text where something is to be put in: a lone control character never stands for itself there.
SPLICE = "\x00"

_CALL_TOOL = Operation.CALL_TOOL
_INVALID, _RESPONSE, _REQUEST = MessageShape.INVALID, MessageShape.RESPONSE, MessageShape.REQUEST
_LISTS: Mapping[Operation, tuple[str, str]] = {
    Operation.LIST_TOOLS: ("tools", "describe_tool"),
    Operation.LIST_RESOURCES: ("resources", "describe_resource"),
    Operation.LIST_RESOURCE_TEMPLATES: ("resourceTemplates", "describe_resource"),
    Operation.LIST_PROMPTS: ("prompts", "describe_prompt"),
}


class Adapter(Descriptions, ClientRole):
    """One revision. Subclasses set the tables and flags to the truth and override what differs."""

    version: ClassVar[str]

    # The three ways to ask. `can_ask`: the question is the result, and the client calls again with the answers.
    # `can_push_ask`: it is pushed on the call's stream. `asks_in_arguments`: it rides in the tool call itself.
    can_ask: ClassVar[bool] = False
    can_push_ask: ClassVar[bool] = False
    asks_in_arguments: ClassVar[bool] = False
    #: A connection starts with ``initialize``, which is also what opens an HTTP session.
    has_handshake: ClassVar[bool] = False
    #: One body or line may hold an array of messages.
    allows_batch: ClassVar[bool] = False
    #: A message that states no revision at all is written in this one.
    is_implied: ClassVar[bool] = False
    #: A client that goes away gives its call up.
    disconnect_cancels: ClassVar[bool] = False
    #: HTTP streams carry event ids and can be resumed by them.
    resumes_streams: ClassVar[bool] = False
    #: A resumable stream starts with an event that has an id and no data.
    primes_streams: ClassVar[bool] = False
    #: An error that answers no request in particular carries ``"id": null``; otherwise it carries none.
    null_error_id: ClassVar[bool] = True

    methods: ClassVar[Mapping[str, Operation]]
    failures: ClassVar[Mapping[FailureKind, FailureCode]]
    #: The HTTP headers, in lower case, that `check_http` compares with the body, but for those that mirror arguments.
    mirroring_headers: ClassVar[tuple[str, ...]] = ()
    shape: ClassVar[Shape]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def method_for(self, operation: Operation) -> str | None:
        """The method's name for `operation`, or ``None`` where the revision has none."""
        return self._method_names.get(operation)

    @cached_property
    def _method_names(self) -> Mapping[Operation, str]:
        """The first name of each operation."""
        return {operation: method for method, operation in reversed([*self.methods.items()])}

    def offers(self, spec: Spec) -> bool:
        """Whether `spec` exists for clients of this revision. `spec.since` is the oldest that is offered it."""
        if spec.since is not None and self.version < spec.since:
            return False
        return not (self.shape.simplifies_schemas and isinstance(spec, ToolSpec) and spec.simple_input_schema is None)

    def tool_of(self, call: Call, registry: Registry) -> ToolSpec | None:
        """The tool that `call` is of, if there is one and this revision is offered it."""
        spec = registry.tools.get(call.target or "") if call.operation is _CALL_TOOL else None
        return spec if spec is not None and self.offers(spec) else None

    def can_carry(self, request: InputRequest) -> bool:
        """Whether the revision has a form for the question `request`, where it puts questions to clients at all."""
        return True

    # Inbound

    def check_http(self, preamble: Preamble, registry: Registry) -> None:
        """Enforce the headers that the revision requires of a POST. Raises `Rejected`."""

    def decode(self, preamble: Preamble, *, client: ClientInfo = NOBODY, log_level: str | None = None) -> list[Decoded]:
        """The calls, replies and failures in a message.

        `client` and `log_level` are what the connection or session remembers; a revision without a handshake reads them
        from the message instead. A notification that nobody knows decodes to nothing. Raises `Rejected` for a body that
        is refused as a whole.
        """
        body = preamble.body
        if not isinstance(body, list):
            decoded = self.decode_message(body, client, log_level)
            return [] if decoded is None else [decoded]
        if not self.allows_batch:
            raise Rejected(
                Failure(FailureKind.MALFORMED, "this protocol revision has no batches; send one message at a time")
            )
        if not body:
            raise Rejected(Failure(FailureKind.MALFORMED, "a batch must hold at least one message"))
        return self._decode_batch(body, client, log_level)

    def _decode_batch(self, body: Sequence[JSON], client: ClientInfo, log_level: str | None) -> list[Decoded]:
        made = [self.decode_message(message, client, log_level) for message in body]
        return [self._fit_for_batch(decoded) for decoded in made if decoded is not None]

    def _fit_for_batch(self, decoded: Decoded) -> Decoded:
        # "The initialize request MUST NOT be part of a JSON-RPC batch" (basic/lifecycle, "Initialization").
        if isinstance(decoded, Call) and decoded.operation is Operation.DESCRIBE:
            return DecodeFailure(decoded.id, Failure(FailureKind.MALFORMED, "initialize must not be part of a batch"))
        return decoded

    def decode_message(self, message: JSON, client: ClientInfo, log_level: str | None) -> Decoded | None:
        """What one message is, or ``None`` for a notification to ignore."""
        envelope = classify(message)
        shape = envelope.shape
        if shape is _INVALID:
            kind = FailureKind.INVALID_PARAMS if envelope.fault_is_params else FailureKind.MALFORMED
            return DecodeFailure(envelope.id, Failure(kind, envelope.fault or "not a message"), envelope.replies)
        if shape is _RESPONSE:
            return self.decode_reply(envelope)
        is_request = shape is _REQUEST
        operation = self.methods.get(envelope.method or "")
        if operation is None or (operation in _NOTIFICATIONS) is is_request:
            failure = Failure(FailureKind.UNKNOWN_METHOD, f"unknown method: {_clipped(envelope.method)}")
            return DecodeFailure(envelope.id, failure) if is_request else None
        fault = self.fault_of_request(operation, envelope.params) if is_request else None
        if fault is not None:
            return DecodeFailure(envelope.id, Failure(FailureKind.INVALID_PARAMS, fault))
        return self.build_call(operation, envelope, client, log_level)

    def decode_reply(self, envelope: Envelope) -> Decoded | None:
        """A client's response, on the revisions that send requests to clients. One to no request is ignored."""
        return None if envelope.id is None else Reply(envelope.id, envelope.result, envelope.error)

    def fault_of_request(self, operation: Operation, params: Mapping[str, JSON]) -> str | None:
        """What is wrong with a request's params, or ``None``."""
        return fault_of_params(operation, params)

    def client_info_for(self, source: Mapping[str, JSON]) -> ClientInfo:
        """Who the client says it is, in the params of its handshake or, without one, in a message's ``_meta``."""
        raise NotImplementedError

    def build_call(self, operation: Operation, envelope: Envelope, client: ClientInfo, log_level: str | None) -> Call:
        """The call of a checked message."""
        params = envelope.params
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        target = TARGET.get(operation)
        arguments = params.get("arguments")
        return Call(
            operation,
            envelope.id,
            params[target] if target else None,
            arguments if type(arguments) is dict else {},  # where there are none, nobody looked at them
            params,
            client,
            self,
            token if type(token) is str or type(token) is int else None,
            log_level,
        )

    # Outbound: one response

    def encode(self, call: Call, registry: Registry, outcome: Outcome) -> bytes:
        """The response to `call`: the same bytes whether they travel as a JSON body, an event or a line."""
        if type(outcome) is Text:
            before, between, behind = registry.around_text.get(self.version) or self._around_text(registry)
            return b"".join((before, encode(call.id), between, encode(outcome.result), behind))
        assert call.id is not None
        if isinstance(outcome, Value):
            result = outcome.result
            if isinstance(result, ListPage):
                return encode_result(call.id, self.page_text(call, registry, result))
            return encode_response(call.id, self.encode_value(call, registry, result))
        if isinstance(outcome, NeedsInput):
            return encode_response(call.id, self.encode_input_required(call, registry, outcome))
        return self.encode_failure(call.id, outcome)

    def encode_value(self, call: Call, registry: Registry, result: Any) -> dict[str, JSON]:
        """The result object for what a call produced."""
        body: dict[str, JSON] = getattr(self, _ENCODERS[type(result)])(call, registry, result)
        return body

    def encode_input_required(self, call: Call, registry: Registry, needs: NeedsInput) -> dict[str, JSON]:
        """The result object that asks for input."""
        return self.encode_value(call, registry, question_result(call, needs))

    def encode_failure(self, request_id: RequestId | None, failure: Failure) -> bytes:
        """The error response for `failure`."""
        code, _ = self.failures[failure.kind]
        data = UNSET if failure.data is None else failure.data
        return encode_error(request_id, code, failure.message, data, null_id=self.null_error_id)

    def http_status(self, failure: Failure) -> int:
        """The HTTP status for `failure`, where it is the whole response."""
        return self.failures[failure.kind][1]

    def finished(self, body: dict[str, JSON], registry: Registry, hint: CacheHint | None = None) -> dict[str, JSON]:
        """`body` with what the revision adds to every result. `hint` is set for results that may be cached."""
        return body

    def page_text(self, call: Call, registry: Registry, page: ListPage) -> bytes:
        """The JSON text of the result that is `page`."""
        if page.text is not None:
            return page.text
        # By what is on it and not by the cursor: a peer can make up any number of cursors, but not of pages. What is
        # declared in a thread meanwhile makes it another page, since later declarations have greater serials.
        specs = page.specs
        ends = (specs[0].serial, specs[-1].serial) if specs else ()
        key = (self.version, call.operation, ends, len(specs), page.next_cursor)
        text: bytes = registry.rendered(key, self._list_page, call, registry, page)
        page.text = text
        return text

    def _list_page(self, call: Call, registry: Registry, page: ListPage) -> bytes:
        member, describe = _LISTS[call.operation]
        project: Callable[[Any, Registry], Any] = getattr(self, describe)
        body: dict[str, JSON] = {member: [project(spec, registry) for spec in page.specs]}
        if page.next_cursor is not None:
            body["nextCursor"] = page.next_cursor
        return encode(self.finished(body, registry, registry.list_cache))

    def _described(self, call: Call, registry: Registry, described: Described) -> dict[str, JSON]:
        raise NotImplementedError

    def _empty(self, call: Call, registry: Registry, empty: Empty) -> dict[str, JSON]:
        return self.finished({}, registry)

    def _tool_result(self, call: Call, registry: Registry, result: CallToolResult) -> dict[str, JSON]:
        body: dict[str, JSON] = {"content": [project_content(self.shape, block) for block in result.content]}
        structured = result.structured_content
        if structured is not UNSET and self._holds_structured(structured):
            body["structuredContent"] = structured
        if result.is_error:
            body["isError"] = True
        if result.meta is not None:
            body["_meta"] = dict(result.meta)
        return self.finished(body, registry)

    def _around_text(self, registry: Registry) -> tuple[bytes, ...]:
        """What is around the id and the text in a response whose result is a text: the same in every one.

        Nearly every tool returns a text, and every revision can hold one: it spares 3 µs to make no records of it.
        """
        result = self.finished({"content": [{"type": "text", "text": SPLICE}]}, registry)
        around = registry.around_text[self.version] = tuple(encode_response(SPLICE, result).split(encode(SPLICE), 2))
        return around

    def _holds_structured(self, value: JSON) -> bool:
        allowed = self.shape.structured_content
        return allowed == "any" or (allowed == "object" and isinstance(value, dict))

    def _resource_result(self, call: Call, registry: Registry, result: ReadResourceResult) -> dict[str, JSON]:
        body: dict[str, JSON] = {"contents": [project_contents(self.shape, item) for item in result.contents]}
        if result.meta is not None:
            body["_meta"] = dict(result.meta)
        found = registry.match_resource(call.params["uri"])
        hint = found[0].cache if found is not None else None
        return self.finished(body, registry, hint or CacheHint())

    def _prompt_result(self, call: Call, registry: Registry, result: GetPromptResult) -> dict[str, JSON]:
        body: dict[str, JSON] = {"messages": [project_message(self.shape, message) for message in result.messages]}
        if result.description is not None:
            body["description"] = result.description
        if result.meta is not None:
            body["_meta"] = dict(result.meta)
        return self.finished(body, registry)

    def _completion(self, call: Call, registry: Registry, completion: Completion) -> dict[str, JSON]:
        return self.finished({"completion": to_wire(completion)}, registry)

    # Outbound: what goes with a call, and what does not

    def encode_progress(self, call: Call, done: float, total: float | None, message: str | None) -> bytes:
        """A progress notification for `call`."""
        given = {"progressToken": call.progress_token, "progress": done, "total": total, "message": message}
        params = {name: value for name, value in given.items() if value is not None and name in self.shape.progress}
        return encode_notification("notifications/progress", params)

    def encode_log(self, level: str, data: JSON, logger: str | None) -> bytes:
        """A log message."""
        params = {"level": level, "data": data} if logger is None else {"level": level, "logger": logger, "data": data}
        return encode_notification("notifications/message", params)

    def encode_question(self, question_id: RequestId, request: InputRequest) -> bytes:
        """A question to push, as a request with the server's own id, on the revisions that push."""
        raise NotImplementedError

    def encode_withdrawal(self, question_id: RequestId, reason: str) -> bytes:
        """The notification that a pushed question is no longer wanted."""
        return encode_notification("notifications/cancelled", {"requestId": question_id, "reason": reason})

    def change_frame(self, change: Change) -> tuple[bytes, bytes | None]:
        """The announcement of `change`, encoded once for all streams.

        Where the revision names the subscription in it, that is two halves: the subscription's id goes between them, as
        JSON. Elsewhere the second half is ``None``.
        """
        params: dict[str, JSON] = {} if change.uri is None else {"uri": change.uri}
        return encode_notification(CHANGE_METHODS[change.kind], params or None), None


def client_info(stated: JSON, capabilities: JSON) -> ClientInfo:
    """A client's own description of itself, as far as it is sound. Unknown capabilities are kept."""
    info = stated if isinstance(stated, dict) else {}
    name, version = info.get("name"), info.get("version")
    return ClientInfo(
        name if isinstance(name, str) else None,
        version if isinstance(version, str) else None,
        capabilities if isinstance(capabilities, dict) else {},
    )


def _clipped(text: str | None) -> str:
    """Enough of a peer's own text to recognise it, and no more."""
    return repr((text or "")[:100])


_NOTIFICATIONS = frozenset({Operation.HANDSHAKE_COMPLETE, Operation.CANCEL})

#: What encodes each kind of result, by name, since revisions override some.
_ENCODERS: Mapping[type, str] = {
    Described: "_described",
    Empty: "_empty",
    Listening: "_listening_ended",
    CallToolResult: "_tool_result",
    ReadResourceResult: "_resource_result",
    GetPromptResult: "_prompt_result",
    Completion: "_completion",
}
