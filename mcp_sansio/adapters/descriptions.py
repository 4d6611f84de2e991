"""What a server says of itself and of what is declared on it: tools, resources and prompts as a revision lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mcp_sansio.in_arguments import with_answer_arguments
from mcp_sansio.registry import Registry
from mcp_sansio.schema import is_object_schema
from mcp_sansio.specs import PromptSpec, ResourceSpec, Spec, ToolSpec
from mcp_sansio.types import JSON, to_wire

from .projection import Shape, pick, project_annotated


class Descriptions:
    """What holds for most revisions, by their `shape`; the others override it."""

    version: ClassVar[str]
    asks_in_arguments: ClassVar[bool]
    shape: ClassVar[Shape]

    def input_schema(self, spec: ToolSpec) -> Mapping[str, JSON] | None:
        """The input schema that clients of this revision see, or ``None`` where it cannot be expressed."""
        return spec.simple_input_schema if self.shape.simplifies_schemas else spec.input_schema

    def output_schema(self, spec: ToolSpec) -> Mapping[str, JSON] | None:
        """The output schema that clients of this revision see where their tools have one, or ``None``."""
        schema = spec.output_schema
        if schema is None or not self.shape.simplifies_schemas:
            return schema
        return spec.simple_output_schema if is_object_schema(schema) else None

    def describe_tool(self, spec: ToolSpec, registry: Registry) -> dict[str, JSON]:
        """The tool as this revision lists it; one that it offers (see `offers`)."""
        schema = self.input_schema(spec)
        assert schema is not None
        if registry.asks_in_arguments(spec) or (self.asks_in_arguments and spec.bound.takes_exchange):
            schema = with_answer_arguments(schema)
        wire = self._description(spec, inputSchema=schema, outputSchema=self.output_schema(spec))
        if spec.annotations is not None:
            wire["annotations"] = pick(to_wire(spec.annotations), self.shape.tool_annotations)
        return pick(wire, self.shape.tool)

    def describe_resource(self, spec: ResourceSpec, registry: Registry) -> dict[str, JSON]:
        """The resource, or the template, as this revision lists it."""
        where = "uri" if spec.template is None else "uriTemplate"
        wire = self._description(spec, **{where: spec.uri}, mimeType=spec.mime_type, size=spec.size)
        if spec.annotations is not None:
            wire["annotations"] = to_wire(spec.annotations)
        members = self.shape.resource if spec.template is None else self.shape.resource_template
        return project_annotated(self.shape, wire, members)

    def describe_prompt(self, spec: PromptSpec, registry: Registry) -> dict[str, JSON]:
        """The prompt as this revision lists it."""
        arguments = [pick(argument, self.shape.prompt_argument) for argument in spec.arguments]
        return pick(self._description(spec, arguments=arguments or None), self.shape.prompt)

    def _description(self, spec: Spec, **members: JSON) -> dict[str, JSON]:
        icons = None if spec.icons is None else [to_wire(icon) for icon in spec.icons]
        meta = None if spec.meta is None else dict(spec.meta)
        given = {"name": spec.name, "title": spec.title, "description": spec.description, **members}
        return {name: value for name, value in {**given, "icons": icons, "_meta": meta}.items() if value is not None}

    def server_info(self, registry: Registry) -> dict[str, JSON]:
        """Who the server is, as this revision can say it."""
        info = registry.shown_info.get(self.version)
        if info is None:
            info = registry.shown_info[self.version] = pick(to_wire(registry.info), self.shape.implementation)
        return info

    def capabilities(self, registry: Registry, *, announces: bool) -> dict[str, JSON]:
        """What the server can do, as this revision spells it; `announces` is whether it tells of changes.

        The three lists are always offered, empty or not, since declarations may come and go while a client is there.
        """
        changes = {"listChanged": True} if announces else {}
        held: dict[str, JSON] = {
            "logging": {},
            "prompts": {**changes},
            "resources": {"subscribe": True, **changes} if announces else {},
            "tools": {**changes},
        }
        if self.shape.has_completions and registry.completions:
            held["completions"] = {}
        return held
