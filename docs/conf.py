"""Sphinx's configuration. ``tox -e docs`` builds with -W -n: a warning, or a reference to nothing, is an error."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes

import mcp_sansio
from mcp_sansio.client import calls, events
from mcp_sansio.server import at_once, heads, server

sys.path.insert(0, str(Path(__file__).parent))
import _tables

project = "mcp-sansio"
author = "the mcp-sansio authors"
release = version = metadata.version("mcp-sansio")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.graphviz", "sphinx_design"]
exclude_patterns = ["_build", "_generated", "examples"]
html_theme = "furo"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
graphviz_output_format = "svg"
html_title = f"mcp-sansio {version}"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# Every link is to a site that answers programs, so none is left out. One that is slow today is asked again.
linkcheck_retries = 3
linkcheck_timeout = 30

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# A parameter a line where a signature is long.
maximum_signature_line_length = 100
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    # Other projects' inventories would have to be fetched for every build, so only our own names are links.
    ("py:.*", r"(?!mcp_sansio).*"),
    # Private names, and type variables, that signatures mention.
    ("py:.*", r"mcp_sansio.*\.(_\w+|_\w+\.\w+|[FKT])"),
    # What an `Adapter` is handed; only who writes one meets these, and reads them where they are.
    (
        "py:.*",
        r"mcp_sansio\.(specs\.\w*Spec|call\.(DecodeFailure|Reply)|(dispatcher|immediate)\.\w+|adapters\.\w+\.\w+)",
    ),
    # The engine's half of an `Exchange`, and other makings that nobody outside makes.
    (
        "py:.*",
        r"mcp_sansio\.(asker\.\w+|client\.child_api\.PathLike|driving\.(Handle|Place|R|RunningTask|Task)|storing\.(EventLoop|Task))",
    ),
    (
        "py:.*",
        r"mcp_sansio\.server\.(at_once\.Recalled|heads\.RequestHead|channel_driver\.Cancellable|blocking\.(Condition|Lent))",
    ),
    # What a store makes its hub of.
    ("py:.*", r"mcp_sansio_(sqlite|redis|postgres)\.(database|server)\.\w+"),
    ("py:.*", r"mcp_sansio\.testing\.(loops|recorded|scheduler|simulation|transcript)\.\w+"),
]


def resolve_public_name(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Link what annotations say (``mcp_sansio.registry.Registry``) to the public name (``mcp_sansio.Registry``)."""
    module, _, name = node.get("reftarget", "").rpartition(".")
    public = getattr(mcp_sansio, name, None) if name in mcp_sansio.__all__ else None
    # Two modules may have a name in common, so the name alone does not tell what is meant.
    if public is None or getattr(sys.modules.get(module), name, None) is not public:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", f"mcp_sansio.{name}", node, contnode)


def tidy_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Defaults that are made (``NOTHING``, ``<factory>``) and lambdas are shown as ``...``, other functions by name."""
    made = re.sub(r"= ?(NOTHING\b|<factory>|<function [\w.]*<lambda>>)", "= ...", signature or "")
    return (re.sub(r"= <(built-in )?function ([\w.]+)>", r"= \2", made) if signature else signature), returns


_DATE = re.compile(r"(\d{4}-\d\d-\d\d)")


def keep_dates_whole(app: Any, doctree: nodes.document, page: str) -> None:
    """In a table a date is not broken at its hyphens: a table that is too wide is scrolled."""
    for entry in doctree.findall(nodes.entry):
        for text in list(entry.findall(nodes.Text)):
            if isinstance(text.parent, nodes.paragraph) and _DATE.search(text):
                parts = (
                    nodes.inline(part, part, classes=["date"]) if _DATE.fullmatch(part) else nodes.Text(part)
                    for part in _DATE.split(text)
                )
                text.parent.replace(text, [*parts])


# These are imported there for the sake of types alone, and autodoc evaluates what a struct's signature says.
vars(events).update(OutgoingCall=calls.OutgoingCall)
vars(at_once).update(Server=server.Server, RequestHead=heads.RequestHead)
# The pages include these, so they have to be there before the first page is read.
_tables.write(Path(__file__).parent / "_generated")


def setup(app: Any) -> None:
    app.connect("missing-reference", resolve_public_name)
    app.connect("autodoc-process-signature", tidy_signature)
    app.connect("doctree-resolved", keep_dates_whole)
