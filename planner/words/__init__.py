"""Goals in words: a small grammar, and a door for language models, before the planner."""

from planner.words.door import errand_for

__all__ = ["errand_for"]
