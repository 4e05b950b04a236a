"""Writes apartments, objects, episodes and the robot as a Habitat scene dataset."""
