"""Environment side of the trainer: NumPy and Gymnasium only, never torch."""
