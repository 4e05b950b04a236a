"""TP-SRL: the agent that carries a plan out with skills."""

from tpsrl.rooms import require

require("skills")
