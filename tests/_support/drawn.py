"""The choices of `grammar`, made by hypothesis, which finds the least of them that fails."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


class Drawn:
    """The choices of hypothesis."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def number(self, low: int, high: int) -> int:
        number: int = self._data.draw(st.integers(low, high))
        return number

    def text(self) -> str:
        text: str = self._data.draw(st.text(max_size=20))
        return text

    def data(self) -> bytes:
        data: bytes = self._data.draw(st.binary(max_size=40))
        return data
