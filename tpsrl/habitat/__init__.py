"""Habitat: its data in and out, and its simulator behind the door."""
