"""Symbolic planning: domain, problems, search, PDDL. Knows nothing of simulators."""
