"""Small learners and policies to be saved, and the log that they come from."""

from reference.cases import make_log, make_rounds, parameters, run
from reference.factories import build
from sparing.learning import learn
from sparing.policies.policy import ConstantPolicy

SEED = 20
THETA = parameters(SEED)
LOG = make_log(SEED, THETA, rows=60, ids=True)

LEARNERS = (
    "moful",
    "eps_moful",
    "eps_moful_ips policy",
    "certified",
    "confident spot checks",
    "economical budget",
    "lints",
    "linucb cold",
)
POLICIES = {
    "greedy": lambda: learn(LOG, "greedy", ridge=1.0),
    "pessimistic": lambda: learn(LOG, "pessimistic"),
    "pi-plus": lambda: learn(LOG, "pi-plus", ridge=1.0),
    "boosted": lambda: learn(LOG, "boosted", rounds=5),
    "stacked": lambda: learn(LOG, "stacked", rounds=5),
    "opr": lambda: learn(LOG, "opr", k=0.0, l2=1e-3),
    "constant": lambda: ConstantPolicy((1, "b", (2, "c")), (2, "c")),
}


def learner(name):
    """A learner after some rounds, with decisions that wait for their rewards."""
    made = build(name, LOG)
    run(made, make_rounds(SEED, THETA, 12))
    for context, context_id in zip(LOG.contexts[:3], LOG.context_ids, strict=False):
        made.decide(context, context_id=context_id)
    return made
