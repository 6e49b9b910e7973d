"""Speed as a ratio against a named baseline, both measured in one run."""
