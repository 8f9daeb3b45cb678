"""`rl_assets.AgenticRL`: an experiment as a Dagster component. Its folder holds `defs.yaml` and the rubric."""

from typing import Annotated, Any, Self

import dagster as dg
from pydantic import BaseModel, ConfigDict, create_model

from rl_assets.core.home import Home
from rl_assets.core.model import parse_settings
from rl_assets.graph.build import build_experiment
from rl_assets.graph.experiment import Experiment, ExperimentSettings, experiment_name
from rl_assets.graph.lab import Lab
from rl_assets.graph.scaffold import ExperimentScaffolder


def templated(model: type[BaseModel]) -> type[BaseModel]:
    """The same settings, with a template such as `{{ env.SEED }}` allowed in place of any value."""
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        kind: Any = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            kind = templated(kind)
        elif info.metadata:
            kind = Annotated[kind, *info.metadata]
        fields[name] = (kind | str, info.get_default(call_default_factory=True) if not info.is_required() else ...)
    return create_model(model.__name__, __config__=ConfigDict(extra="forbid"), __doc__=model.__doc__, **fields)


@dg.scaffold_with(ExperimentScaffolder)
class AgenticRL(dg.Component):
    """An agentic RL experiment: worlds, trajectories, rewards and weights as partitioned assets.

    The experiment's name is the name of its folder.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """What `defs.yaml` may say; each value may be a template."""
        return templated(ExperimentSettings)

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> Self:
        """Resolve templates, then validate."""
        given = {} if attributes is None else attributes.model_dump(exclude_unset=True)
        resolved = context.resolution_context.resolve_value(given)
        settings = parse_settings(ExperimentSettings, resolved, str(context.path / "defs.yaml"))
        return cls(Experiment(experiment_name(context.path), settings, context.path, context.project_root))

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Everything of this experiment."""
        return build_experiment(Lab(self.experiment, Home.from_environment(context.project_root)))
