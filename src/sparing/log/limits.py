"""Limits of a log; compiled code has them built in."""

# The state of each action must fit in memory.
MAX_ACTIONS = 1_000_000

# Magnitude of a feature or a reward: sums of products of four of them stay finite.
LARGEST = 1e50

# Nesting of lists and objects in JSON, and of tuples in a label.
DEEPEST_JSON = 100
DEEPEST_LABEL = 16

# Digits of a whole number; longer runs of digits are text.
LONGEST_NUMBER = 100
