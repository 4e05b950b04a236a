"""Commands that make policies."""
