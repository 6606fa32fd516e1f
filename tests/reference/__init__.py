"""Plain twins of what the package does fast: slow, short, and written apart from it."""
