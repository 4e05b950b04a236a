"""The simulator door and the engines behind it."""
