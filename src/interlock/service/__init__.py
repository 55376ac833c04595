"""The one interface that every shell uses, its answers, and its operations on a store."""
