"""`python -m sparing` is the command line."""

from sparing.cli import main

main()
