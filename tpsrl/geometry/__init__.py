"""Rotations, frames and outlines, for NumPy and torch."""
