"""How kernels are compiled, kept, and handed their arrays."""
