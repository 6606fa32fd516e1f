"""Asking: which rewards to buy before anybody is served, and what judged answers say."""
