"""What becomes of what a handler raises: words that were written for the peer go there, everything else to the log."""

from __future__ import annotations

import logging
from typing import Protocol

from .asker import Stop
from .binding import ArgumentsInvalid
from .call import Call
from .errors import ToolError
from .outcome import Failure, FailureKind, Outcome, Rejected, Value
from .results import Unfit, tool_error
from .specs import PromptSpec, ResourceSpec, ToolSpec
from .storage import STORE_FAULT, StoreFull, StoreUnavailable

logger = logging.getLogger("mcp_sansio")

TOOL_FAULT = "The tool failed because of an internal error."
HANDLER_FAULT = "The request failed because of an internal error."
#: What a handler may raise that ends its call and nothing else: not even ``sys.exit()`` ends the process that serves.
HANDLER_ERRORS = (Exception, SystemExit, Stop)


class Raised(Protocol):
    """What holds an error that was raised already."""

    raised: BaseException | None


def outcome_of(call: Call, error: BaseException) -> Outcome:
    """What becomes of a call whose running raised `error`, which is one of `HANDLER_ERRORS`."""
    if isinstance(error, Rejected | Stop):
        return refusal(error.failure)
    if isinstance(error, StoreFull):
        return Failure(FailureKind.UNAVAILABLE, str(error))
    if isinstance(error, StoreUnavailable):
        logger.error("%s %r met a store that fails: %s", call.operation, call.target, error)
        return Failure(FailureKind.UNAVAILABLE, STORE_FAULT)
    logger.error("%s %r failed", call.operation, call.target, exc_info=error)
    return Failure(FailureKind.INTERNAL, HANDLER_FAULT)


def raise_again(held: Raised) -> None:
    """Raise what was raised already, which nobody holds any longer then."""
    error, held.raised = held.raised, None
    assert error is not None
    try:
        raise error
    finally:
        del error  # or it and this frame keep each other


def tool_failure(spec: ToolSpec, error: BaseException) -> Outcome:
    """What becomes of a call whose tool raised `error`. A store's is no fault of the tool, and raised."""
    if isinstance(error, StoreFull | StoreUnavailable):
        raise error
    if isinstance(error, ArgumentsInvalid):
        return Value(tool_error(arguments_text(error)))
    if isinstance(error, ToolError):
        return Value(tool_error(str(error)))
    if isinstance(error, Unfit):
        logger.error("tool %r returned what cannot be sent: %s", spec.name, error)
    else:
        logger.error("tool %r failed", spec.name, exc_info=error)
    return Value(tool_error(TOOL_FAULT))


def refusal(failure: Failure) -> Outcome:
    """What becomes of a call that is refused."""
    # Who gets arguments wrong called the tool all the same (server/tools, "Error Handling").
    if failure.kind is FailureKind.INVALID_ARGUMENTS:
        return Value(tool_error(f"Invalid arguments: {failure.message}"))
    return failure


def arguments_text(invalid: ArgumentsInvalid) -> str:
    """What is wrong with the arguments, for the peer."""
    return "Invalid arguments: " + "; ".join(f"{path}: {message}" for path, message in invalid.faults)


def not_found(uri: str) -> Failure:
    """There is no such resource."""
    return Failure(FailureKind.RESOURCE_NOT_FOUND, "resource not found", {"uri": uri})


def handler_failure(spec: ResourceSpec | PromptSpec, error: Exception) -> Failure:
    """What becomes of a call whose resource or prompt raised `error`: a `ToolError` or `Unfit`."""
    if isinstance(error, ToolError):
        return Failure(FailureKind.INTERNAL, str(error))
    logger.error("%r returned what cannot be sent: %s", spec.name, error)
    return Failure(FailureKind.INTERNAL, HANDLER_FAULT)
