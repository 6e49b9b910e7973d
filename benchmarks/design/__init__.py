"""How easily the code is followed: files and functions on the paths of a sample, and sizes."""
