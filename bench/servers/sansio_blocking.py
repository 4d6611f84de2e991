"""mcp-sansio over standard input and output without an event loop: the same tools, by the binding that has none."""

from __future__ import annotations

import workload
from sansio import registry


def stdio() -> None:
    """Serve the standard input and output."""
    from mcp_sansio_sync import run_stdio

    run_stdio(registry)


if __name__ == "__main__":
    workload.main(stdio=stdio)
