"""The client role of an adapter: what a client of a revision says, and how it reads what the server says."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from msgspec import Struct

from mcp_sansio.changes import Change, ChangeKind
from mcp_sansio.in_arguments import META_KEY, with_answers
from mcp_sansio.notices import Changed, Logged, Notice, Progressed, Withdrawn
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import Failure, FailureKind, InputRequest, Rejected
from mcp_sansio.schema import HeaderParam
from mcp_sansio.types import JSON, Implementation, LogLevel, ProgressToken, RequestId
from mcp_sansio.wire.jsonrpc import encode_notification

from .failures import FailureCode

if TYPE_CHECKING:
    from mcp_sansio.catalogue import ServerDescription

#: The methods of what a server announces; every revision that announces a kind uses the same name for it.
CHANGE_METHODS = {
    ChangeKind.TOOLS: "notifications/tools/list_changed",
    ChangeKind.PROMPTS: "notifications/prompts/list_changed",
    ChangeKind.RESOURCES: "notifications/resources/list_changed",
    ChangeKind.RESOURCE_UPDATED: "notifications/resources/updated",
}
_KINDS = {method: kind for kind, method in CHANGE_METHODS.items()}


class Asked(Struct, frozen=True):
    """The questions in a result, by key, and the state to bring back with the answers.

    `in_arguments` says that the answers travel as arguments of the tool (see `mcp_sansio.in_arguments`).
    """

    requests: Mapping[str, InputRequest]
    state: str | None = None
    in_arguments: bool = False


class ClientRole:
    """What holds for a client of most revisions; the others override it."""

    version: ClassVar[str]
    failures: ClassVar[Mapping[FailureKind, FailureCode]]
    can_ask: ClassVar[bool]
    #: What a client can be asked here, in the words in which it declares that.
    askable: ClassVar[Mapping[str, JSON]] = {}
    #: HTTP clients repeat arguments in headers where the tool's schema says so.
    mirrors_arguments: ClassVar[bool] = False

    # What a client says

    def client_headers(
        self, method: str, params: Mapping[str, JSON], mirrored: Sequence[HeaderParam] = ()
    ) -> dict[str, str]:
        """The headers that go with a POST of that message, besides those of HTTP itself.

        `mirrored` is the plan of the arguments that the called tool wants mirrored (see `header_plan`).
        """
        return {}

    def client_capabilities(self, can_answer: bool) -> dict[str, JSON]:
        """What a client declares that says nothing else: everything it can be asked where something answers.

        Where nothing does, elicitation alone, and only where the question is a result that the caller may answer.
        """
        if can_answer:
            return dict(self.askable)
        return {name: held for name, held in self.askable.items() if self.can_ask and name == "elicitation"}

    def client_handshake_params(
        self, client: Implementation, capabilities: Mapping[str, JSON]
    ) -> dict[str, JSON] | None:
        """The params of the handshake's request, or ``None`` where there is no handshake."""
        return None

    def client_decorate_params(
        self,
        params: Mapping[str, JSON],
        client: Implementation,
        capabilities: Mapping[str, JSON],
        *,
        progress_token: ProgressToken | None = None,
        log_level: LogLevel | None = None,
    ) -> dict[str, JSON]:
        """The params of a request with what the revision wants in every one, and the token to report progress by."""
        if progress_token is None:
            return dict(params)
        return {**params, "_meta": {**params.get("_meta", {}), "progressToken": progress_token}}

    def client_answered_params(
        self,
        params: Mapping[str, JSON],
        answers: Mapping[str, JSON],
        state: str | None,
        *,
        in_arguments: bool | None = None,
    ) -> dict[str, JSON]:
        """The params of a call with the `answers` to its questions, and the `state` that came with them.

        `in_arguments` is that of `Asked`; ``None`` leaves it to the revision.
        """
        return {**params, "arguments": with_answers(params.get("arguments") or {}, answers, state)}

    def client_cancellation(self, request_id: RequestId, reason: str | None) -> bytes:
        """The notification that a request is given up (basic/utilities/cancellation)."""
        given = {"requestId": request_id} if reason is None else {"requestId": request_id, "reason": reason}
        return encode_notification("notifications/cancelled", given)

    def client_listen_params(self, kinds: Collection[ChangeKind], uris: Collection[str]) -> dict[str, JSON] | None:
        """The params of a listen request, or ``None`` where the revision announces unasked."""
        return None

    # What a client reads

    def client_input_requests(self, result: Mapping[str, JSON]) -> tuple[Mapping[str, InputRequest], str | None]:
        """The questions in a `result` and the state to bring back with the answers; none in one that asks nothing.

        Here are read those that ride in an ordinary result (see `mcp_sansio.in_arguments`).
        """
        asked = result.get("_meta", {}).get(META_KEY, {})
        return asked.get("inputRequests", {}), asked.get("requestState")

    def client_asked(self, operation: Operation, result: Mapping[str, JSON]) -> Asked | None:
        """What a `result` asks, or ``None`` for one that is complete.

        Raises `Rejected` for a result of a kind that the revision does not have for `operation`.
        """
        meta = result.get("_meta")
        asked = meta.get(META_KEY) if isinstance(meta, dict) and operation is Operation.CALL_TOOL else None
        if not isinstance(asked, dict):
            return None
        return read_asked(asked.get("inputRequests"), asked.get("requestState"), in_arguments=True)

    def client_failure(self, code: int) -> FailureKind | None:
        """What an error of this `code` means, where the revision uses the code for one thing alone."""
        kinds = [kind for kind, (known, _) in self.failures.items() if known == code]
        return kinds[0] if len(kinds) == 1 else None

    def client_offered(self, result: Mapping[str, JSON]) -> list[str] | None:
        """The revisions that a server names in its description, or ``None`` where `result` is no description."""
        raise NotImplementedError

    def client_server_info(self, result: Mapping[str, JSON]) -> JSON:
        """Where a description says who the server is."""
        raise NotImplementedError

    def client_description(self, result: Mapping[str, JSON]) -> ServerDescription:
        """Who a server says it is. What is not of the right type is passed over, since nothing depends on it."""
        from mcp_sansio.catalogue import ServerDescription  # which servers have no use for

        info, capabilities = self.client_server_info(result), result.get("capabilities")
        name, version, title = (_text(info, member) for member in ("name", "version", "title"))
        return ServerDescription(
            name=name,
            version=version,
            title=title,
            instructions=_text(result, "instructions"),
            capabilities=capabilities if isinstance(capabilities, dict) else {},
            revision=self.version,
            adapter=self,
        )

    def client_notice(self, method: str, params: Mapping[str, JSON]) -> Notice | None:
        """What a notification says, or ``None`` for one that nobody knows. Raises `Rejected` for a malformed one."""
        if method == "notifications/progress":
            return _progressed(params)
        if method == "notifications/message":
            if not isinstance(params.get("level"), str) or "data" not in params:
                raise _malformed("params.level must be a string, and params.data must be there")
            return Logged(params["level"], params["data"], _text(params, "logger"))
        if method == "notifications/cancelled":
            return Withdrawn(_request_id(params.get("requestId"), "params.requestId"))
        kind = _KINDS.get(method)
        return None if kind is None else Changed(_change(kind, params), self.client_subscription(params))

    def client_subscription(self, params: Mapping[str, JSON]) -> RequestId | None:
        """The listen request that a notification names, where the revision has it named."""
        return None


def read_asked(requests: Any, state: Any, *, in_arguments: bool = False) -> Asked:
    """The questions and the state of a result, checked. Raises `Rejected`."""
    requests = {} if requests is None else requests
    if not isinstance(requests, dict) or not isinstance(state, str | None):
        raise _malformed("inputRequests must be an object, and requestState a string")
    for key, request in requests.items():
        sound = isinstance(request, dict) and isinstance(request.get("method"), str)
        if not sound or not isinstance(request.get("params", {}), dict):
            raise _malformed(f"inputRequests[{key[:100]!r}] must be a request with a method")
    if not requests and state is None:
        raise _malformed("a result that asks must have inputRequests or a requestState")
    # Who answers need not know that params may be left out where there are none.
    whole = {key: {**request, "params": request.get("params", {})} for key, request in requests.items()}
    return Asked(whole, state, in_arguments)


def _malformed(text: str) -> Rejected:
    return Rejected(Failure(FailureKind.INVALID_PARAMS, text))


def _text(source: JSON, member: str) -> str | None:
    value = source.get(member) if isinstance(source, dict) else None
    return value if isinstance(value, str) else None


def _request_id(value: JSON, where: str) -> RequestId:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise _malformed(f"{where} must be a string or an integer")
    return value


def _is_number(value: JSON) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _progressed(params: Mapping[str, JSON]) -> Progressed:
    progress, total = params.get("progress"), params.get("total")
    if not _is_number(progress) or not (total is None or _is_number(total)):
        raise _malformed("params.progress and params.total must be numbers")
    token = _request_id(params.get("progressToken"), "params.progressToken")
    return Progressed(token, progress, total, _text(params, "message"))


def _change(kind: ChangeKind, params: Mapping[str, JSON]) -> Change:
    if kind is not ChangeKind.RESOURCE_UPDATED:
        return Change(kind)
    uri = _text(params, "uri")
    if uri is None:
        raise _malformed("params.uri must be a string")
    return Change(kind, uri)
