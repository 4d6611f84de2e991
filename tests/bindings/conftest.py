"""The one suite of all bindings: each test below the folder of a kind of binding runs on every plug of that kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

import behaviours
import support
from plugs import TRAITS, Plug, all_plugs

PLUGS = all_plugs()
KINDS = tuple(dict.fromkeys(plug.kind for plug in PLUGS))


def pytest_report_header() -> str:
    told = [f"{plug.name} ({plug.kind})" for plug in PLUGS if not plug.missing]
    left = sorted({name for plug in PLUGS for name in plug.missing})
    return f"bindings: {', '.join(told) or 'none'}" + (f"; not installed: {', '.join(left)}" if left else "")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on each binding of its kind that is installed."""
    for kind in KINDS:
        if kind in metafunc.fixturenames:
            plugs = [plug for plug in PLUGS if plug.kind == kind and _is_here(plug)]
            metafunc.parametrize(kind, plugs, ids=[plug.name for plug in plugs])


def _is_here(plug: Plug) -> bool:
    wanted = support.MUST_RUN.intersection(plug.missing)
    if wanted:
        raise pytest.UsageError(f"{', '.join(wanted)} is not installed, and this environment is meant to run its tests")
    return not plug.missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the tests out that want what their binding lacks, for the reason that it states."""
    for item in items:
        plug = behaviours.plug_of(item)
        if plug is None:
            continue
        wanted = [trait for mark in item.iter_markers("wants") for trait in mark.args]
        unknown = {*wanted, *plug.lacks} - {*TRAITS}
        if unknown:
            raise pytest.UsageError(f"{item.nodeid}: {', '.join(unknown)} is no trait of plugs.TRAITS")
        lacking = [trait for trait in wanted if trait in plug.lacks]
        row: dict[str, Any] = {"kind": plug.kind, "binding": plug.name, "behaviour": behaviours.sentence_of(item)}
        if lacking:
            row["lacks"] = plug.lacks[lacking[0]]
            item.add_marker(pytest.mark.skip(reason=f"{plug.name}: {row['lacks']}"))
        item.user_properties.append(("behaviour", json.dumps(row)))
