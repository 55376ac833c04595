"""A plan's graph for people: laid out once, drawn as text, SVG or Mermaid, and measured. Pure."""
