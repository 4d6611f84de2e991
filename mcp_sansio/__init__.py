"""A sans-IO implementation of the Model Context Protocol: every revision, no event loop, no socket.

Declare tools, resources and prompts on a `Registry`. A binding package (``mcp_sansio_aiohttp``, ``mcp_sansio_stdio``)
serves it; the author of a transport drives a `Server` instead, whose engines turn bytes into events and events into
bytes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .adapters.base import Adapter
from .adapters.preamble import Preamble
from .adapters.selection import AdapterSet
from .asking import (
    Answer,
    AnswerAction,
    elicit,
    elicit_accept,
    elicit_accept_defaults,
    elicit_cancel,
    elicit_decline,
    list_roots,
    sample,
)
from .call import Call, ClientInfo
from .changes import Change, ChangeKind
from .errors import (
    AnswerFailed,
    CallAbandoned,
    CallTimeout,
    ConnectionLost,
    DeclarationError,
    HeadersFailed,
    LocalProtocolError,
    McpError,
    NegotiationFailed,
    ResourceNotFound,
    ServerError,
    SessionExpired,
    ToolError,
    UnusableReply,
)
from .events import Body, CallCancelled, CallReceived, End, Event, Head, Part, PeerFaulted, StoreNeeded, Whole
from .exchange import Exchange
from .operation import Operation
from .outcome import Failure, FailureKind, NeedInput, NeedsInput, Outcome, Rejected, Value
from .registry import Registry
from .request_state import StateCodec, StoredState
from .runtime import Runtime, run_in_place
from .server.at_once import Pending
from .server.config import Config
from .server.connection import ServerConnection
from .server.server import HttpServerOptions, Server, ServerOptions
from .specs import CacheHint, CompletionRequest
from .storage import (
    Hub,
    HubMessage,
    MemoryHub,
    MemorySessionStore,
    Session,
    SessionAccess,
    SessionRecord,
    SessionStore,
    StoreFull,
    StoreTooNew,
    StoreUnavailable,
)
from .types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    Completion,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    Implementation,
    LogLevel,
    PromptMessage,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

if TYPE_CHECKING:
    from .catalogue import Prompt, PromptArgument, Resource, ResourceTemplate, ServerDescription, Tool
    from .client import (
        Answered,
        BlockingApi,
        BlockingListening,
        CallEnded,
        CallOptions,
        ChangeReceived,
        ChildClientApi,
        ClientApi,
        ClientConfig,
        ClientConnection,
        ClientDriver,
        ClientEngine,
        ClientEvent,
        ClientOptions,
        ConnectionEnded,
        Failed,
        GivenHeaders,
        HttpAbort,
        HttpClientApi,
        HttpClientSession,
        HttpRequest,
        Known,
        Listening,
        ListenStarted,
        LogReceived,
        Negotiated,
        OnAsk,
        OnChange,
        OnLog,
        OnProgress,
        OutgoingCall,
        OutgoingRequest,
        ProgressReceived,
        Question,
        QuestionReceived,
        QuestionWithdrawn,
        ServerFaulted,
        StreamClientApi,
    )
    from .sealed_state import SealedState
    from .server.blocking import BlockingTransaction
    from .server.channel_driver import ChannelDriver
    from .server.http import HttpTransaction
    from .server.stream_api import StreamServing

__all__ = [
    "Adapter",
    "AdapterSet",
    "Annotations",
    "Answer",
    "AnswerAction",
    "AnswerFailed",
    "Answered",
    "AudioContent",
    "BlobResourceContents",
    "BlockingApi",
    "BlockingListening",
    "BlockingTransaction",
    "Body",
    "CacheHint",
    "Call",
    "CallAbandoned",
    "CallCancelled",
    "CallEnded",
    "CallOptions",
    "CallReceived",
    "CallTimeout",
    "CallToolResult",
    "Change",
    "ChangeKind",
    "ChangeReceived",
    "ChannelDriver",
    "ChildClientApi",
    "ClientApi",
    "ClientConfig",
    "ClientConnection",
    "ClientDriver",
    "ClientEngine",
    "ClientEvent",
    "ClientInfo",
    "ClientOptions",
    "Completion",
    "CompletionRequest",
    "Config",
    "ConnectionEnded",
    "ConnectionLost",
    "DeclarationError",
    "EmbeddedResource",
    "End",
    "Event",
    "Exchange",
    "Failed",
    "Failure",
    "FailureKind",
    "GetPromptResult",
    "GivenHeaders",
    "Head",
    "HeadersFailed",
    "HttpAbort",
    "HttpClientApi",
    "HttpClientSession",
    "HttpRequest",
    "HttpServerOptions",
    "HttpTransaction",
    "Hub",
    "HubMessage",
    "Icon",
    "ImageContent",
    "Implementation",
    "Known",
    "ListenStarted",
    "Listening",
    "LocalProtocolError",
    "LogLevel",
    "LogReceived",
    "McpError",
    "MemoryHub",
    "MemorySessionStore",
    "NeedInput",
    "NeedsInput",
    "Negotiated",
    "NegotiationFailed",
    "OnAsk",
    "OnChange",
    "OnLog",
    "OnProgress",
    "Operation",
    "Outcome",
    "OutgoingCall",
    "OutgoingRequest",
    "Part",
    "PeerFaulted",
    "Pending",
    "Preamble",
    "ProgressReceived",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "Question",
    "QuestionReceived",
    "QuestionWithdrawn",
    "ReadResourceResult",
    "Registry",
    "Rejected",
    "Resource",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceTemplate",
    "Runtime",
    "SealedState",
    "Server",
    "ServerConnection",
    "ServerDescription",
    "ServerError",
    "ServerFaulted",
    "ServerOptions",
    "Session",
    "SessionAccess",
    "SessionExpired",
    "SessionRecord",
    "SessionStore",
    "StateCodec",
    "StoreFull",
    "StoreNeeded",
    "StoreTooNew",
    "StoreUnavailable",
    "StoredState",
    "StreamClientApi",
    "StreamServing",
    "TextContent",
    "TextResourceContents",
    "Tool",
    "ToolAnnotations",
    "ToolError",
    "UnusableReply",
    "Value",
    "Whole",
    "elicit",
    "elicit_accept",
    "elicit_accept_defaults",
    "elicit_cancel",
    "elicit_decline",
    "list_roots",
    "run_in_place",
    "sample",
]


#: Where the names are that are loaded later, unless it is the client role.
_LATER = {
    **dict.fromkeys(
        ("Prompt", "PromptArgument", "Resource", "ResourceTemplate", "ServerDescription", "Tool"), "catalogue"
    ),
    "BlockingTransaction": "server.blocking",
    "ChannelDriver": "server.channel_driver",
    "HttpTransaction": "server.http",
    "SealedState": "sealed_state",
    "StreamServing": "server.stream_api",
}


def __getattr__(name: str) -> Any:
    """The names that most servers do without, which start the sooner: loaded with the first use of one."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER.get(name, 'client')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
