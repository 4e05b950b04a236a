"""The map of the rooms, drawn from the list that tests/test_rooms.py reads against the sources."""

from __future__ import annotations


def rooms_map() -> str:
    return ""
