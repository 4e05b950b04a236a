"""Commands about plans and episodes."""
