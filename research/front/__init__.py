"""The picture of the front page: judged answers paid for against what they earned, on real prompts."""
