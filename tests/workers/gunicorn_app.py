"""The shop as gunicorn wants it: an application that is there once the module is imported, before or after the fork."""

from __future__ import annotations

import json
import os

from mcp_sansio_sqlite import SqliteStore
from program import application

options = json.loads(os.environ["MCP_SANSIO_WORKER"])
store = SqliteStore(options["where"])
app = application(options, store=store, hub=store.hub)
