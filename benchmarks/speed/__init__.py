"""Speed as a ratio against a named rival, both measured in one run."""
