"""Agents that solve whole scenarios: planner, executor and skills put together."""
