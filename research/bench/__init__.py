"""How fast it is: side-by-side runs against peers, plain NumPy and the machine's limits."""
