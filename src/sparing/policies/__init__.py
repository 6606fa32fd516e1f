"""What may be played: policies and their files, π⁺."""
