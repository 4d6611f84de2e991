"""The client role of an adapter: what a client of a revision says, and where it finds a question in a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcp_sansio.in_arguments import META_KEY
from mcp_sansio.outcome import InputRequest
from mcp_sansio.schema import HeaderParam
from mcp_sansio.types import JSON, Implementation, LogLevel, ProgressToken


class ClientRole:
    """What holds for a client of most revisions; the others override it."""

    def client_headers(
        self, method: str, params: Mapping[str, JSON], mirrored: Sequence[HeaderParam] = ()
    ) -> dict[str, str]:
        """The headers that go with a POST of that message, besides those of HTTP itself.

        `mirrored` is the plan of the arguments that the called tool wants mirrored (see `header_plan`).
        """
        return {}

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

    def client_input_requests(self, result: Mapping[str, JSON]) -> tuple[Mapping[str, InputRequest], str | None]:
        """The questions in a `result` and the state to bring back with the answers; none in one that asks nothing.

        Here are read those that ride in an ordinary result (see `mcp_sansio.in_arguments`).
        """
        asked = result.get("_meta", {}).get(META_KEY, {})
        return asked.get("inputRequests", {}), asked.get("requestState")
