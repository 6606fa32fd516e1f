"""What we claim and how fast it is: the paper run again, and benchmarks. Not part of the installed package."""
