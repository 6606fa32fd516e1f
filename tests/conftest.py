"""What holds for all tests."""

import os

os.environ.pop("COLUMNS", None)  # xdist sets it; without, what a command prints into a pipe is not wrapped
