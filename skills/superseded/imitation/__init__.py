"""Learning a skill's policy from its scripted stand-in: demonstrations, cloning, DAgger.

``demonstrations`` and ``collect`` are NumPy only and run in worker processes; ``cloning`` and
``rounds`` need torch and run in the main process.
"""
