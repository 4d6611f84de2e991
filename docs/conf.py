"""Sphinx's configuration. ``tox -e docs`` builds with -W -n: a warning, or a reference to nothing, is an error."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import mcp_sansio

sys.path.insert(0, str(Path(__file__).parent))
import _tables

project = "mcp-sansio"
author = "the mcp-sansio authors"
release = version = metadata.version("mcp-sansio")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "_generated", "examples"]
html_theme = "furo"
html_title = f"mcp-sansio {version}"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
default_role = "py:obj"
nitpicky = True
# Other projects' inventories would have to be fetched for every build, so only our own names are links.
nitpick_ignore_regex = [("py:.*", r"(?!mcp_sansio).*")]


def resolve_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Link what annotations say (``mcp_sansio.registry.Registry``) to the public name (``mcp_sansio.Registry``)."""
    module, _, name = node.get("reftarget", "").rpartition(".")
    if not module.startswith("mcp_sansio.") or name not in getattr(mcp_sansio, "__all__", ()):
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", f"mcp_sansio.{name}", node, contnode)


# The pages include these, so they have to be there before the first page is read.
_tables.write(Path(__file__).parent / "_generated")


def setup(app: Any) -> None:
    app.connect("missing-reference", resolve_public_name)
