"""The `openworld` command. Each command has a file of its own and imports what is heavy when it runs."""

from openworld.cli.app import main

__all__ = ["main"]
