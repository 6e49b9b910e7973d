"""Data sets: the ones a user brings, and the built-in letters."""
