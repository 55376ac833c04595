"""The workflows that `interlock series init` writes. The texts are in the `.yml` files beside this module."""

from __future__ import annotations

from interlock.actions.agent_workflow import setup_steps, template
from interlock.core.series.snapshot import RolloutStage

#: The names of the files, by their purpose.
RECONCILE, ASSIGN = "series.yml", "assign.yml"


def series_workflows(stage: RolloutStage, install: str) -> dict[str, str]:
    """Each workflow's text by the name of its file. `install` is the arguments of `pip install`."""
    texts = {RECONCILE: template("series_workflow.yml"), ASSIGN: template("assign_workflow.yml")}
    setup = setup_steps(install)
    return {
        name: text.replace("@MODE@", stage.value).replace("@SETUP@", setup) for name, text in texts.items()
    }
