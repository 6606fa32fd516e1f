"""Planning: how many reward calls going live would need, and what they gain and cost."""
