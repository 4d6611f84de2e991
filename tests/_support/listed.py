"""Declarations to be listed, and the lists."""

from __future__ import annotations

from mcp_sansio import Registry

#: The methods that list, and the member that a list is in.
LISTS = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
]


def declare(registry: Registry, method: str, number: int) -> None:
    """Declare something that is on the list of that `method`, by a `number` of its own."""
    name = f"n{number}"
    if method == "tools/list":
        registry.tool(name=name)(lambda: "x")
    elif method == "prompts/list":
        registry.prompt(name=name)(lambda: "x")
    elif method == "resources/list":
        registry.resource(f"a:{number}", name=name)(lambda: "x")
    else:

        def read(x: str) -> str:
            return x

        registry.resource(f"a:{number}/{{x}}", name=name)(read)


def remove(registry: Registry, method: str, number: int) -> None:
    """Take that back."""
    if method == "tools/list":
        registry.remove_tool(f"n{number}")
    elif method == "prompts/list":
        registry.remove_prompt(f"n{number}")
    else:
        registry.remove_resource(f"a:{number}" if method == "resources/list" else f"a:{number}/{{x}}")
