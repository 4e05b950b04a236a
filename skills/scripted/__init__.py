"""Scripted skills: privileged state, inverse kinematics, geodesic paths."""
