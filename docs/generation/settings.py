"""Settings, from the table that also reads and checks them."""

from __future__ import annotations

import math

from docs.generation.markdown import code, table
from docs.generation.meanings import meanings
from interlock.settings import OTHER_VARIABLES, SETTINGS, TYPE_SETTINGS, Setting


def all_settings() -> str:
    rows = (
        (code(s.name), code(s.env), _default(s), _span(s), s.from_repository.value, s.description)
        for s in SETTINGS
    )
    return table(("setting", "variable", "default", "range", "from a repository", "meaning"), rows)


def types() -> str:
    """The keys of a table [types.NAME]."""
    rows = ((code(s.name), _span(s), s.description) for s in TYPE_SETTINGS)
    return table(("key", "range", "meaning"), rows)


def other_variables() -> str:
    words = meanings("settings_other", sorted(OTHER_VARIABLES))
    return table(("variable", "meaning"), ((code(name), text) for name, text in words.items()))


def _default(setting: Setting) -> str:
    if setting.default is None:
        return "see there"
    return code(f"{setting.default:g}" if isinstance(setting.default, float) else str(setting.default))


def _span(setting: Setting) -> str:
    return "" if math.isinf(setting.low) else f"{setting.low:,g} to {setting.high:,.12g}"
