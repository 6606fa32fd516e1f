"""Events to change and read."""


def event(**fields):
    """An event of three actions of which the second was taken, with changes."""
    plain = {
        "_label_cost": -1.0,
        "_label_probability": 0.5,
        "_label_Action": 2,
        "_labelIndex": 1,
        "Timestamp": "2021-02-04T16:31:29.2460000Z",
        "EventId": "e1",
        "a": [2, 1, 3],
        "c": {"user": {"age": 31}, "_multi": [{"i": {"id": "A"}}, {"i": {"id": "B"}}, {"i": {"id": "C"}}]},
        "p": [0.5, 0.375, 0.125],
    }
    return {name: value for name, value in {**plain, **fields}.items() if value is not ...}


def multi(*actions, **context):
    """A context with these actions."""
    return {**context, "_multi": list(actions)}
