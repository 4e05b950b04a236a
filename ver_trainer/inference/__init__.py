"""Inference in several processes."""
