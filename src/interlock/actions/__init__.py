"""GitHub Actions: generates a workflow with correct concurrency, and finds the known mistakes in others.

Everything here is a function of texts: no files are read or written, and GitHub is not called.
"""
