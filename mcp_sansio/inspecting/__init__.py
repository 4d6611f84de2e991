"""A look at a server from the shell: what it is, what its tools do, and what it asks.

A binding's ``python -m`` is this, with a client of its own: see `Command`.
"""

from __future__ import annotations

from .command import Command, Terminal, either_client, either_options, header_option, process_options
from .words import pair_of

__all__ = ["Command", "Terminal", "either_client", "either_options", "header_option", "pair_of", "process_options"]
