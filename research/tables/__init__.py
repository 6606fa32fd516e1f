"""The tables of the docs on what the model of a log can do: measured again, and written into their pages."""
