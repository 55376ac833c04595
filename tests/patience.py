"""How long tests wait for what must happen: far longer than it takes, since a busy machine is no defect."""

import os

PATIENCE_S = float(os.environ.get("INTERLOCK_PATIENCE_S", "180"))
