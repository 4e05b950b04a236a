"""Habitat behind the simulator door, usually in an interpreter of its own."""
