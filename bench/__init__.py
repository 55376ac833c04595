"""Peers and limits, side by side: every figure is a ratio measured in one run on one machine."""
