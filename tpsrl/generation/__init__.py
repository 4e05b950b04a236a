"""Draws episodes of a scenario and checks them in the engine."""
