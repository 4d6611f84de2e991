"""What the fuzzer calls, with its seeds and with what hypothesis makes of them: the targets hold, and stay runnable."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import support

FUZZ = support.ROOT / "fuzz"
if not FUZZ.is_dir():
    pytest.skip("the sdist holds no fuzz/", allow_module_level=True)
sys.path.insert(0, str(FUZZ))
try:
    import seeds
    from targets import TARGETS
finally:
    sys.path.remove(str(FUZZ))


@pytest.mark.parametrize("target", TARGETS)
def test_seeds(target: str) -> None:
    found = seeds.of(target)
    assert found
    for seed in found:
        TARGETS[target](seed)


@pytest.mark.parametrize("target", TARGETS)
def test_any_bytes(target: str) -> None:
    starts = st.sampled_from(seeds.of(target))

    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(start=starts | st.binary(max_size=200), data=st.data())
    def run(start: bytes, data: Any) -> None:
        place = data.draw(st.integers(0, len(start)))
        TARGETS[target](
            start[:place] + data.draw(st.binary(max_size=20)) + start[place + data.draw(st.integers(0, 9)) :]
        )

    run()
