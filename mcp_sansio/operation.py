"""The verbs of MCP, in no revision's words.

What a method is called, and whether it exists at all, is an adapter's to say (``Adapter.methods``). Everything else in
the library compares these members.

In Python 3.11 naming a member of any enumeration takes 0.07 µs, since ``EnumType`` has a ``__getattr__``, and a
constant of the module a seventh of that. So a module that every call passes through names the members that it compares
there once, at its top; elsewhere they are named where they are meant.
"""

from __future__ import annotations

from enum import StrEnum


class Operation(StrEnum):
    """What one peer asks of the other. The value is a stable name of our own, never a method's name."""

    # A member equals its value, so it hashes like it; the hash that Enum has is also slower, being written in Python.
    __hash__ = str.__hash__

    DESCRIBE = "describe"
    HANDSHAKE_COMPLETE = "handshake_complete"
    PING = "ping"
    LIST_TOOLS = "list_tools"
    CALL_TOOL = "call_tool"
    LIST_RESOURCES = "list_resources"
    LIST_RESOURCE_TEMPLATES = "list_resource_templates"
    READ_RESOURCE = "read_resource"
    LIST_PROMPTS = "list_prompts"
    GET_PROMPT = "get_prompt"
    COMPLETE = "complete"
    LISTEN = "listen"
    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    SET_LOG_LEVEL = "set_log_level"
    CANCEL = "cancel"


#: The operations that run a handler of the application. They are the only ones that may ask the user something
#: (basic/patterns/mrtr, "Supported Requests").
HANDLED = frozenset({Operation.CALL_TOOL, Operation.READ_RESOURCE, Operation.GET_PROMPT})
