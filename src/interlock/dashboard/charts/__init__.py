"""Charts as SVG from plain values: presentation attributes and classes, no styles and no scripts."""
