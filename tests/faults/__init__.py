"""A checker of the service in the manner of Jepsen: clients of its own, a recorded history, faults, and what must hold of the history.

`python tests/faults --help` runs it for longer. Nothing here imports the service: it is started as a process and asked over plain HTTP.
"""
