"""The rules of Interlock: pure values and functions, no clock, no I/O, no randomness.

Everything that decides *who works on what* is in this package and uses only the standard library. Stores
load a snapshot, call `decide`, and write what it returns.
"""
