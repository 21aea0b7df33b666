"""Engines run one pass: they ask a question of every block and merge the answers in block order."""
