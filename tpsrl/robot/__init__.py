"""The Fetch robot: constants of the benchmark's contract and its kinematic model."""
