"""The pictures of worlds that move: a model that gets worse, actions that trade places, an interval that is watched."""
