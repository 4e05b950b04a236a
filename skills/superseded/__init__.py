"""What shipped weights were made with; learning without it replaces it."""
