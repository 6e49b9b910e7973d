"""`python -m openworld` is the command `openworld`."""

from openworld.cli import main

main()
