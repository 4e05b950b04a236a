"""Commands that run agents."""
