"""What a caller may set. Every limit is finite by default."""

from __future__ import annotations

import attrs

from mcp_sansio.limits import check_limit


@attrs.frozen(kw_only=True)
class ClientConfig:
    """The limits of a client. Sizes are in bytes, times in seconds.

    Time: `timeout` is how long a call may take that says nothing else, from its start or its last sign of progress, and
    `max_timeout` how long it may take whatever progress it makes. `probe_timeout` is how long a server may keep silent
    about what it speaks before the handshake is tried; it is never more than half of what the call that waits has.
    `ask_timeout` is how long a question of the server may wait for its answer; the call's own time stands still
    meanwhile, for no more than `max_rounds` times as long in all. `reconnect_delay` is the pause before a stream that
    ended is opened again, doubled each time up to `max_reconnect_delay`, and `max_reconnects` how often that is tried
    in a row.

    HTTP: `settle_timeout` is how long calls wait for the end of the handshake to arrive and for the stream that
    questions may come on. `endpoint_timeout` is how long a server of the first HTTP transport may take to name its
    endpoint, and `notice_timeout` how long a request may take that is due no reply. `linger` is how long the rest of a
    response may take of which nothing more is wanted, before it is given up with its connection. `max_redirects` bounds
    the redirects of one request, which never leave their origin, and `max_headers` the header section of a response.
    `max_answers` bounds the answers to the server's own requests that are on their way at once; others are left out.

    What a server may send: `max_message` bounds one message, `max_depth` its nesting and `max_batch` the messages of a
    batch. `max_questions` bounds the questions that are open at once, and those of one round; `max_rounds` the rounds
    of one call. `max_pages` bounds the pages of a list, `max_items` its entries, and `max_list` the bytes of all of
    its pages together. `max_callbacks` bounds the log messages, changes or signs of progress that wait for a callback
    of the caller's; more are dropped, the oldest first.

    Raises ``ValueError`` for a limit that is no number above zero.
    """

    timeout: float = 60.0
    max_timeout: float = 3600.0
    probe_timeout: float = 5.0
    ask_timeout: float = 600.0
    reconnect_delay: float = 1.0
    max_reconnect_delay: float = 60.0
    max_reconnects: int = 8

    settle_timeout: float = 3.0
    endpoint_timeout: float = 10.0
    notice_timeout: float = 30.0
    linger: float = 2.0
    max_redirects: int = 5
    max_headers: int = 64 * 2**10
    max_answers: int = 100

    max_message: int = 16 * 2**20
    max_depth: int = 128
    max_batch: int = 100
    max_questions: int = 64
    max_rounds: int = 32
    max_pages: int = 1_000
    max_items: int = 100_000
    max_list: int = 64 * 2**20
    max_callbacks: int = 1_000

    def __attrs_post_init__(self) -> None:
        for field in attrs.fields(ClientConfig):
            check_limit(f"ClientConfig.{field.name}", getattr(self, field.name))
