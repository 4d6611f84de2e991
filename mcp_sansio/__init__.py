"""A sans-IO implementation of the Model Context Protocol: every revision, no event loop, no socket.

Declare tools, resources and prompts on a `Registry`. A binding package (``mcp_sansio_aiohttp``, ``mcp_sansio_stdio``)
serves it; the author of a transport drives a `Server` instead, whose engines turn bytes into events and events into
bytes.
"""

from __future__ import annotations

from .adapters.base import Adapter
from .adapters.preamble import Preamble
from .adapters.selection import AdapterSet
from .asking import (
    Answer,
    AnswerAction,
    elicit,
    elicit_accept,
    elicit_cancel,
    elicit_decline,
    list_roots,
    sample,
)
from .call import Call, ClientInfo
from .changes import Change, ChangeKind
from .errors import (
    DeclarationError,
    LocalProtocolError,
    McpError,
    ResourceNotFound,
    SessionExpired,
    ToolError,
)
from .events import Body, CallCancelled, CallReceived, End, Event, Head, Part, PeerFaulted, StoreNeeded
from .exchange import Exchange
from .operation import Operation
from .outcome import Failure, FailureKind, NeedInput, NeedsInput, Outcome, Rejected, Value
from .registry import Registry
from .request_state import StateCodec, StoredState
from .runtime import Runtime, run_in_place
from .server.config import Config
from .server.connection import ServerConnection
from .server.http import HttpTransaction
from .server.server import Server
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
    PromptMessage,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

__all__ = [
    "Adapter",
    "AdapterSet",
    "Annotations",
    "Answer",
    "AnswerAction",
    "AudioContent",
    "BlobResourceContents",
    "Body",
    "CacheHint",
    "Call",
    "CallCancelled",
    "CallReceived",
    "CallToolResult",
    "Change",
    "ChangeKind",
    "ClientInfo",
    "Completion",
    "CompletionRequest",
    "Config",
    "DeclarationError",
    "EmbeddedResource",
    "End",
    "Event",
    "Exchange",
    "Failure",
    "FailureKind",
    "GetPromptResult",
    "Head",
    "HttpTransaction",
    "Hub",
    "HubMessage",
    "Icon",
    "ImageContent",
    "Implementation",
    "LocalProtocolError",
    "McpError",
    "MemoryHub",
    "MemorySessionStore",
    "NeedInput",
    "NeedsInput",
    "Operation",
    "Outcome",
    "Part",
    "PeerFaulted",
    "Preamble",
    "PromptMessage",
    "ReadResourceResult",
    "Registry",
    "Rejected",
    "ResourceLink",
    "ResourceNotFound",
    "Runtime",
    "Server",
    "ServerConnection",
    "Session",
    "SessionAccess",
    "SessionExpired",
    "SessionRecord",
    "SessionStore",
    "StateCodec",
    "StoreFull",
    "StoreNeeded",
    "StoredState",
    "TextContent",
    "TextResourceContents",
    "ToolAnnotations",
    "ToolError",
    "Value",
    "elicit",
    "elicit_accept",
    "elicit_cancel",
    "elicit_decline",
    "list_roots",
    "run_in_place",
    "sample",
]
