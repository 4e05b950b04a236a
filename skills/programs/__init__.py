"""Scripted skills: privileged state and inverse kinematics; see :func:`skills.book.make_skill`."""
