"""The compiled engine: exact decisions over many actions, at the cost of those that can matter."""

ENGINE_VERSION = 1
"""Version of the engine's results, part of the stamp of every state that the service stores.

Raise it only when decisions or learnt states change in any bit, that is when the recorded traces and stores of
tests/frozen no longer replay. Renames, comments and faster code with equal results keep it: stores written before
are then still verified decision by decision.
"""
