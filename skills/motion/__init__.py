"""What programs move by: views, postures, moves, paths."""
