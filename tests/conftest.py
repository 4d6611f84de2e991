"""Async tests without a plugin, and the tests of a deleted revision left out."""

from __future__ import annotations

import asyncio
import gc
import inspect
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import behaviours
import support

# How long an example takes says what else the machine does: by default, one that takes 200 ms fails its test.
settings.register_profile("whatever the load", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("whatever the load")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that writes the table of the bindings."""
    parser.addoption("--behaviours", metavar="FILE", help="write which behaviour holds on which binding to FILE")


def pytest_configure(config: pytest.Config) -> None:
    """Write that table, where it is wanted, and have interruptions heard."""
    # A shell has what runs in its background ignore them, and so does all that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    where = config.getoption("behaviours")
    if where and not hasattr(config, "workerinput"):
        config.pluginmanager.register(behaviours.Record(Path(where)))


def pytest_collection_finish() -> None:
    """Have the collector pass over what is there before any test: those that call it take half the time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run each ``async def`` test on an event loop of its own, so that the core's environment needs no plugin."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def pytest_ignore_collect(collection_path: Any) -> bool | None:
    """Leave out a file that is named for the deleted revision (``test_v2025_11_25.py``)."""
    deleted = support.DELETED_REVISION
    return True if deleted and deleted.replace("-", "_") in collection_path.name else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests marked or parametrised with the deleted revision."""
    deleted = support.DELETED_REVISION
    if deleted is None:
        return
    gone = [item for item in items if deleted in _revisions_of(item)]
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in gone]


def _revisions_of(item: pytest.Item) -> set[str]:
    marked = {date for mark in item.iter_markers("revision") for date in mark.args}
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec else ()
    return marked | {value for value in values if isinstance(value, str)}
