"""The public names, each with its home.

Type checkers and editors read this file, and so does `__init__.py`, which loads a name on first use.
"""

from sparing import engines as engines
from sparing import errors as errors
from sparing import simulation as simulation
from sparing.asking.ask import Queue as Queue
from sparing.asking.ask import TellResult as TellResult
from sparing.asking.ask import ask as ask
from sparing.asking.verdict import Verdict as Verdict
from sparing.auditing import Audit as Audit
from sparing.auditing import audit as audit
from sparing.auditing import estimate_support as estimate_support
from sparing.evaluation import Estimate as Estimate
from sparing.evaluation import Evaluation as Evaluation
from sparing.evaluation.evaluate import evaluate as evaluate
from sparing.learning import learn as learn
from sparing.log import Log as Log
from sparing.log import Support as Support
from sparing.log import read_log as read_log
from sparing.log import write_log as write_log
from sparing.log.features import Encoder as Encoder
from sparing.log.features import Features as Features
from sparing.log.features import features as features
from sparing.log.features import hashed as hashed
from sparing.log.features import nystroem as nystroem
from sparing.log.features import text as text
from sparing.log.features import vector as vector
from sparing.log.features.files import read_features as read_features
from sparing.log.features.files import write_features as write_features
from sparing.log.formats import scan as scan
from sparing.log.scan import Scan as Scan
from sparing.model.confidence import certified_within as certified_within
from sparing.model.confidence import elbow as elbow
from sparing.model.confidence import most_logged as most_logged
from sparing.model.confidence import supported_actions as supported_actions
from sparing.model.linearity import with_kernel as with_kernel
from sparing.model.statistics import LogSummary as LogSummary
from sparing.model.statistics import Statistics as Statistics
from sparing.model.statistics import summarise as summarise
from sparing.online.algorithms import certified as certified
from sparing.online.algorithms import confident as confident
from sparing.online.algorithms import economical as economical
from sparing.online.algorithms import eps_moful as eps_moful
from sparing.online.algorithms import eps_moful_ips as eps_moful_ips
from sparing.online.algorithms import lints as lints
from sparing.online.algorithms import linucb as linucb
from sparing.online.algorithms import moful as moful
from sparing.online.algorithms import warm_started as warm_started
from sparing.online.decision import Decision as Decision
from sparing.online.explanation import Explanation as Explanation
from sparing.online.files import load as load
from sparing.online.learner import Learner as Learner
from sparing.planning.plan import plan as plan
from sparing.planning.result import Plan as Plan
from sparing.policies.files import load_policy as load_policy
from sparing.policies.files import save_policy as save_policy
from sparing.policies.pi_plus import pi_plus as pi_plus
from sparing.policies.scorer import Scorer as Scorer
from sparing.policies.scorer import load_scorer as load_scorer
from sparing.report.notebook import progress as progress
from sparing.simulation import datasets as datasets
from sparing.simulation.simulate import Trace as Trace
from sparing.simulation.simulate import simulate as simulate

__version__: str
