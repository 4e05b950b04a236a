"""Collection and arrangement of experience."""
