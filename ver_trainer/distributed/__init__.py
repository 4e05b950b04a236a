"""Several ranks: gradient averaging and preemption of slow rollouts."""
