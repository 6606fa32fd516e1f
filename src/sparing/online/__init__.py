"""How to decide and learn live: confidence sets, skip rules, and the algorithms they compose."""
