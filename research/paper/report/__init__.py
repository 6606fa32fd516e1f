"""The reproduction on paper: each experiment's figures, and one page of verdicts over them all."""
