"""Long work in pieces: worker processes, a folder that survives kills, progress."""
