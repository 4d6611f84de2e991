"""The client role: engines that turn what a caller wants into bytes, and what a server sends into events."""

from __future__ import annotations

from .api import ClientApi, Listening
from .blocking_api import BlockingApi, BlockingListening
from .calls import Answered, Failed, OutgoingCall, OutgoingRequest, Question
from .child_api import ChildClientApi
from .config import ClientConfig
from .connection import ClientConnection
from .driver import ClientDriver, OnAsk, OnChange, OnLog, OnProgress
from .engine import ClientEngine
from .events import (
    CallEnded,
    ChangeReceived,
    ClientEvent,
    ConnectionEnded,
    ListenStarted,
    LogReceived,
    Negotiated,
    ProgressReceived,
    QuestionReceived,
    QuestionWithdrawn,
    ServerFaulted,
)
from .http import HttpClientSession
from .http_api import GivenHeaders, HttpClientApi
from .http_requests import HttpAbort, HttpRequest
from .known import Known
from .options import CallOptions, ClientOptions
from .stream_api import StreamClientApi

__all__ = [
    "Answered",
    "BlockingApi",
    "BlockingListening",
    "CallEnded",
    "CallOptions",
    "ChangeReceived",
    "ChildClientApi",
    "ClientApi",
    "ClientConfig",
    "ClientConnection",
    "ClientDriver",
    "ClientEngine",
    "ClientEvent",
    "ClientOptions",
    "ConnectionEnded",
    "Failed",
    "GivenHeaders",
    "HttpAbort",
    "HttpClientApi",
    "HttpClientSession",
    "HttpRequest",
    "Known",
    "ListenStarted",
    "Listening",
    "LogReceived",
    "Negotiated",
    "OnAsk",
    "OnChange",
    "OnLog",
    "OnProgress",
    "OutgoingCall",
    "OutgoingRequest",
    "ProgressReceived",
    "Question",
    "QuestionReceived",
    "QuestionWithdrawn",
    "ServerFaulted",
    "StreamClientApi",
]
