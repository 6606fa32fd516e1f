"""MLflow: policies and learners as models, and the numbers of evaluations and plans as metrics.

A model's data is sparing's own archive, arrays and JSON: nothing is pickled.
"""

import importlib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparing import __version__
from sparing.errors import FileError, KindError, SettingError, require
from sparing.evaluation.result import Evaluation
from sparing.online.files import load as load_learner
from sparing.online.learner import Learner
from sparing.planning.result import Plan
from sparing.policies.files import load_policy, save_policy
from sparing.policies.policy import Policy, StochasticPolicy, label_array

if TYPE_CHECKING:
    import pandas

FLAVOR = "sparing"
DATA = "model.sparing"
NEW_DRAWS = -1  # of the parameter `seed`


def save_model(
    model: Policy | Learner,
    path: str | os.PathLike[str],
    *,
    pip_requirements: list[str] | None = None,
    input_example: Any = None,
    metadata: dict[str, Any] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Save a policy or a learner as an MLflow model with the flavours `sparing` and `python_function`.

    Parameters
    ----------
    model : Policy or Learner
        What to save.
    path : str or path
        The folder to write; it must not exist.
    pip_requirements : list of str, optional
        What a server of the model installs; by default this version of sparing.
    input_example : frame, optional
        Raw contexts, saved with the model.
    metadata : dict, optional
        Further facts, kept in the file ``MLmodel``.
    mlflow_model : mlflow.models.Model, optional
        The model that MLflow is logging.
    """
    described = _mlflow("models").Model(metadata=metadata) if mlflow_model is None else mlflow_model
    with tempfile.TemporaryDirectory(prefix="sparing-") as scratch:
        data = Path(scratch) / DATA
        if isinstance(model, Learner):
            model.save(data)
        else:
            save_policy(model, data)
        kind = "learner" if isinstance(model, Learner) else "policy"
        described.add_flavor(FLAVOR, sparing_version=__version__, kind=kind)
        _mlflow("pyfunc").save_model(
            path=str(path),
            loader_module=__name__,
            data_path=str(data),
            mlflow_model=described,
            signature=_signature(model),
            pip_requirements=pip_requirements or [f"sparing[mlflow]=={__version__}"],
            input_example=input_example,
        )


def log_model(
    model: Policy | Learner,
    name: str = "model",
    *,
    registered_model_name: str | None = None,
    pip_requirements: list[str] | None = None,
    input_example: Any = None,
    metadata: dict[str, Any] | None = None,
) -> Any:
    """Log a policy or a learner as a model of the active run.

    Parameters
    ----------
    model : Policy or Learner
        What to log.
    name : str
        Name of the model.
    registered_model_name : str, optional
        Also register it as a version of this model.
    pip_requirements, input_example, metadata
        As in `save_model`.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Its `model_uri` is for `load_model` and ``mlflow.pyfunc.load_model``.
    """
    return _mlflow("models").Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        registered_model_name=registered_model_name,
        metadata=metadata,
        model=model,
        pip_requirements=pip_requirements,
        input_example=input_example,
    )


def load_model(model_uri: str) -> Policy | Learner:
    """Load the policy or the learner itself, bit for bit as it was saved.

    Parameters
    ----------
    model_uri : str
        A folder, ``runs:/…``, ``models:/…`` or another URI of MLflow.

    Returns
    -------
    Policy or Learner
    """
    folder = Path(_mlflow("artifacts").download_artifacts(artifact_uri=model_uri))
    flavors = _mlflow("models").Model.load(str(folder)).flavors
    if FLAVOR not in flavors:
        raise FileError(f"{model_uri} has no flavour {FLAVOR}; it was not saved by sparing")
    return _read(folder / flavors["python_function"]["data"])


def log_metrics(result: Evaluation | Plan, *, prefix: str = "", step: int | None = None) -> dict[str, float]:
    """Log the numbers of an evaluation or a plan as metrics of the active run.

    Parameters
    ----------
    result : Evaluation or Plan
        Of an evaluation, value, interval, unsupported mass and effective rows of each method; of a plan, calls, regret, gain and net
        of each option, with intervals. Numbers that are unknown or not finite are left out.
    prefix : str
        In front of every name.
    step : int, optional
        MLflow's step.

    Returns
    -------
    dict
        The metrics.
    """
    found = {f"{prefix}{name}": value for name, value in metrics(result).items()}
    _mlflow().log_metrics(found, step=step)
    return found


def metrics(result: Evaluation | Plan) -> dict[str, float]:
    """Return the numbers of an evaluation or a plan by their names in MLflow.

    Parameters
    ----------
    result : Evaluation or Plan
    """
    found: dict[str, Any] = {}
    if isinstance(result, Evaluation):
        found = {"rows": result.rows, "logged_mean": result.logged_mean}
        names = ("value", "low", "high", "support_low", "support_high", "unsupported_mass")
        for one in result.estimates:
            values = {name: getattr(one, name) for name in names}
            values["value"] = None if one.unknown else one.value
            values["effective_rows"] = one.effective_sample_size
            found |= {f"{one.method}.{name}": value for name, value in values.items()}
    elif isinstance(result, Plan):
        found = {"horizon": result.horizon, "call_cost": result.call_cost}
        for option in result.options:
            numbers = {
                "calls": option.calls_at(),
                "regret": option.regret_at(),
                "gain": result.gain(option),
                "net": result.net(option),
            }
            about = f"{option.name} {option.setting}".strip()
            for name, value in numbers.items():
                if value is not None:
                    ends = {"": value.mean, "_low": value.low, "_high": value.high}
                    found |= {f"{about}.{name}{end}": number for end, number in ends.items()}
    else:
        raise SettingError(f"a {type(result).__name__} has no metrics; pass an Evaluation or a Plan")
    return {
        re.sub(r"[^\w.\-/ ]", "_", name): float(value)
        for name, value in found.items()
        if value is not None and np.isfinite(value)
    }


class PyFunc:
    """What ``mlflow.pyfunc.load_model`` calls: contexts in, decisions out, as a frame with one row for each.

    A policy gives the columns `action` and `probability`. A learner gives those of ``decide_many``, and neither learns nor counts.

    Parameters
    ----------
    model : Policy or Learner
        What was saved.
    """

    def __init__(self, model: Policy | Learner) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> "pandas.DataFrame":
        """Return the decision of each context.

        Parameters
        ----------
        model_input : frame or array (n, d)
            Raw columns, or numbers of encoded contexts.
        params : dict, optional
            `seed` of a stochastic policy's draws; by default they are new in each call.
        """
        import pandas

        if isinstance(self.model, Learner):
            return self.model.decide_many(_contexts(self.model, model_input)).to_frame()
        policy: Any = self.model
        contexts = policy.rows(_contexts(policy, model_input))
        seed = (params or {}).get("seed", NEW_DRAWS)
        rng = np.random.default_rng(None if seed == NEW_DRAWS else seed)
        chosen = policy.indices(contexts, rng)
        chances = policy.probabilities(contexts)[np.arange(len(chosen)), chosen]
        return pandas.DataFrame({"action": label_array(policy.action_names)[chosen], "probability": chances})


def _load_pyfunc(path: str) -> PyFunc:
    """Load the model of a folder; MLflow calls it by this name."""
    return PyFunc(_read(Path(path)))


def _contexts(model: Any, given: Any) -> Any:
    """Return an array where contexts are numbers as they are: frames of MLflow name their columns."""
    if hasattr(given, "to_numpy") and model.encoder is not None and model.encoder.is_raw:
        names = model.encoder.names
        return (
            given[list(names)].to_numpy() if set(names) <= set(map(str, given.columns)) else given.to_numpy()
        )
    return given


def _signature(model: Any) -> Any:
    """Return the signature: `seed` of a stochastic policy, else None, so that contexts are checked by sparing alone."""
    if not isinstance(model, StochasticPolicy):
        return None
    models, types = _mlflow("models"), _mlflow("types")
    seed = types.ParamSpec("seed", types.DataType.long, NEW_DRAWS)
    return models.ModelSignature(params=types.ParamSchema([seed]))


def _read(path: Path) -> Policy | Learner:
    try:
        return load_policy(path)
    except KindError as error:
        if error.kind != "sparing learner":
            raise FileError(f"{path} contains a {error.kind}; expected a policy or a learner") from None
    return load_learner(path)


def _mlflow(part: str = "") -> Any:
    whole = require("mlflow", extra="mlflow", purpose="logging to MLflow")
    return importlib.import_module(f"mlflow.{part}") if part else whole
