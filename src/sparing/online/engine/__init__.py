"""The compiled heart: exact decisions over many actions, at the cost of those that can matter."""
