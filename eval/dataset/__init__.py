"""Data sets of what an agent did: recorded, written in LeRobot's format, read, replayed."""
