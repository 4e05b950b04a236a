"""Robot skills: what each one is, and the policies, scripted or learned, that carry it out."""

from tpsrl.rooms import require

require("ver_trainer")
