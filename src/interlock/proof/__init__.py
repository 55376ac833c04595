"""Proof that the promises held: one strict checker of event logs, used by the demo and the tests."""
