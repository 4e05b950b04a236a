"""Command modules: each has ``HELP`` and ``run(overrides)``."""
