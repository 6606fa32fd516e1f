"""The command line: one command, one file, one library call."""
