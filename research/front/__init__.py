"""The picture of the front page: reward calls against mean reward, on real prompts."""
