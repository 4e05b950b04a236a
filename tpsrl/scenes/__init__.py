"""The apartment: furniture, walls, layouts and objects, described without any engine."""
