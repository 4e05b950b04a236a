"""Faults: damaged files for every reader, and runs that are killed, starved or torn."""
