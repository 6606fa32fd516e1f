"""The paper, and our comparisons: one folder an experiment, its setting apart from its analysis."""
