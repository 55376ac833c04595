"""GitHub Actions: a workflow whose concurrency is right, and the known mistakes in one that is not.

Everything here is a function of texts: nothing is read, written or asked of GitHub.
"""
