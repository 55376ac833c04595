"""Proof that the promises held: one strict checker of event logs, for the demo and for the tests."""
