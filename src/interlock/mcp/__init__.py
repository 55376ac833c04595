"""Interlock for models: tools of the Model Context Protocol, by stdio or HTTP."""
