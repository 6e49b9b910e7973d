"""Campaigns against a running service: killed, cut off, out of disk; then what it kept is compared."""
