"""Speed measurements; benchmarks/README.md keeps results with command, commit and date."""
