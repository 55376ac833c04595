"""The one interface that every shell uses, its answers, and its use cases on a store."""
