"""TP-SRL: the agent that carries a plan out with skills."""
