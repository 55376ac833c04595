"""The rules of a series of RFC issues: one is assigned at a time."""
