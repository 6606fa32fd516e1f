"""How large a log's parts may be: numbers, which compiled code has built in."""

MAX_ACTIONS = 1_000_000
"""Actions a log may have: everything that is kept for each of them must fit in memory."""

LARGEST = 1e50
"""The largest size of a feature or a reward: sums of products of four of them stay finite."""

DEEPEST_JSON = 100
"""Levels of lists and objects within one another that JSON may have."""

DEEPEST_LABEL = 16
"""Levels of tuples within one another that a label may have."""

LONGEST_NUMBER = 100
"""Digits of a whole number; longer runs of digits are text."""
