"""Where a command runs: this machine, or ranks and jobs of torchrun, SLURM and Ray."""
