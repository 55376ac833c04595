"""The figures, each a function from a plan (how much, how often) to tables."""
