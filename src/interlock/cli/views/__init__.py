"""How answers look to a person. Imported only where a person reads: `rich` is not free."""
