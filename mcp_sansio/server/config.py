"""What an operator may set. Every limit is finite by default."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import attrs

from mcp_sansio.given import check_kind
from mcp_sansio.limits import check_limit


@attrs.frozen(kw_only=True)
class Config:
    """The limits and choices of a server. Sizes are in bytes, times in seconds.

    Messages: `max_message` bounds an HTTP body or one message of a channel, `max_depth` its nesting, `max_batch` the
    messages in a batch, `max_headers` a request's header section. `receive_timeout` is how long the body of an HTTP
    request may take to come in once its headers are there.

    Calls: `max_calls` bounds those in flight on one channel or in one session, `call_timeout` how long one may run,
    `ask_timeout` how long a pushed question waits, `max_answers` and `max_rounds` how much one call may ask.

    Streams: `max_streams` bounds the open listening streams of a server, `max_subscriptions` the resources that one of
    them watches, `max_unsent` what may wait in memory for a slow client, `replay_events` and `replay_bytes` what is
    kept of a stream for a client that comes back, `replay_streams` the streams kept of a session, of which that of its
    announcements is the last one to go. `keep_alive` is the silence after which a comment is sent, and after which a
    reply that would be JSON becomes a stream. `retry` is what a client is told to wait before it comes back, in
    milliseconds. `worker_timeout` is how long the other workers have to say that they have the stream which a request
    is about, before there is none. Without `announces_changes` a server says that it announces nothing, and has no
    streams to listen on, for hosts that would hold a thread for each.

    State: `session_ttl` is the idle life of a session, `state_ttl` that of a ``requestState``, and `max_state` bounds
    what is kept behind one (the handler's state and the answers of earlier rounds), and what is kept for a session of
    what its client said of itself. Without `opens_sessions` a handshake over HTTP opens none, for workers that share
    nothing: such a client is served, and nothing is remembered of it. `require_session` refuses what comes without a
    session on the revisions that have them, and `deletable_sessions` lets clients end theirs. With `asks_store_at_once`
    a store that never waits (`SessionStore`) is asked in the middle of a request; without, by way of the driver, as
    every other is.

    HTTP: `allowed_origins` are full origins (``https://app.example``) and `allowed_hosts` names with an optional port,
    besides the loopback names on a loopback socket; ``"*"`` allows any.

    Raises ``ValueError`` for a limit that is no number above zero, for one string where a collection is meant, and for
    sessions that are required and never opened.
    """

    max_message: int = 16 * 2**20
    max_depth: int = 128
    max_batch: int = 100
    max_headers: int = 64 * 2**10
    receive_timeout: float = 120.0

    max_calls: int = 1_000
    call_timeout: float = 3600.0
    ask_timeout: float = 600.0
    max_answers: int = 64
    max_rounds: int = 32

    max_streams: int = 20_000
    max_subscriptions: int = 1_000
    max_unsent: int = 2**20
    replay_events: int = 256
    replay_bytes: int = 2**20
    replay_streams: int = 16
    keep_alive: float = 15.0
    retry: int = 1_000
    worker_timeout: float = 3.0
    announces_changes: bool = True

    session_ttl: float = 1800.0
    state_ttl: float = 900.0
    max_state: int = 64 * 2**10
    opens_sessions: bool = True
    require_session: bool = False
    deletable_sessions: bool = False
    asks_store_at_once: bool = True

    allowed_origins: Collection[str] = ()
    allowed_hosts: Collection[str] = ()

    def __attrs_post_init__(self) -> None:
        for field in attrs.fields(Config):
            value = getattr(self, field.name)
            if isinstance(field.default, tuple):
                _check_names(field.name, value)
            elif not isinstance(field.default, bool):
                check_limit(f"Config.{field.name}", value)
        if self.require_session and not self.opens_sessions:
            raise ValueError("Config.require_session needs Config.opens_sessions: there would be no way in")

    @classmethod
    def of(cls, config: Config | None, **given: Any) -> Config:
        """`config`, or the defaults, with the members that are `given`, and not as ``None``, in place of its own.

        Raises ``TypeError`` for a `config` that is none, as a dict.
        """
        if config is None:
            config = cls()
        check_kind("config", config, cls)
        return attrs.evolve(config, **{name: value for name, value in given.items() if value is not None})


def _check_names(name: str, value: object) -> None:
    # A string is a collection of strings too, and would let in whatever is a part of it.
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"Config.{name} must be a collection of strings, as in {name}=[...], not {value!r}")
