"""The one suite of all bindings: each test below the folder of a kind of binding runs on every plug of that kind."""

from __future__ import annotations

import inspect
import json
from functools import partial
from typing import Any

import pytest

import behaviours
import support
from mcp_sansio import Registry
from plugs import TRAITS, ChannelClient, HttpClient, Plug, all_plugs
from worlds import World

PLUGS = all_plugs()
KINDS = tuple(dict.fromkeys(plug.kind for plug in PLUGS))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the asynchronous body of a client's test where that client runs."""
    plug = behaviours.plug_of(pyfuncitem)
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or not isinstance(plug, HttpClient | ChannelClient):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    plug.world().run(partial(pyfuncitem.obj, **given))
    return True


@pytest.fixture
def registry() -> Registry:
    """With a tool that answers."""
    made = Registry("streams", "1")

    @made.tool
    async def echo(text: str) -> str:
        return text

    return made


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """Where the client of a test runs."""
    plug = behaviours.plug_of(request.node)
    assert isinstance(plug, HttpClient | ChannelClient)
    return plug.world()


def pytest_report_header() -> str:
    told = [f"{plug.name} ({plug.kind})" for plug in PLUGS if not plug.missing]
    left = sorted({name for plug in PLUGS for name in plug.missing})
    return f"bindings: {', '.join(told) or 'none'}" + (f"; not installed: {', '.join(left)}" if left else "")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on each binding of its kind that is installed."""
    for kind in KINDS:
        if kind in metafunc.fixturenames:
            plugs = [plug for plug in PLUGS if plug.kind == kind and _is_here(plug)]
            metafunc.parametrize(kind, [pytest.param(plug, id=plug.name, marks=plug.marks) for plug in plugs])


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
        if item.path.parent.name == plug.kind:  # what a binding tries of its own matter is not in the table
            item.user_properties.append(("behaviour", json.dumps(row)))
