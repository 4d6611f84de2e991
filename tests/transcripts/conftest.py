"""The option that writes down what the core says now: ``pytest tests/transcripts --update-transcripts``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """See above. Only the lines of the server are rewritten; look at the difference before you commit it."""
    parser.addoption(
        "--update-transcripts", action="store_true", help="rewrite what the server says in tests/transcripts"
    )
