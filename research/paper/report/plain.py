"""Every claim in a sentence that a newcomer understands, and what was found in another: no symbols."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from research.paper.experiment import FAILS, HOLDS, ONLY_WHEN, Record

WORDS = (
    "Offline learning (OPR) decides by the log alone. Always asking (mOFUL) learns live and pays for the reward of every decision: a "
    "reward call. Trusting known actions (ε-mOFUL) makes a call only if an action that was not known beforehand may be better. "
    "Answering from the log (ε-mOFUL-IPS) also skips the call if a logged reward is high enough. Regret is the reward that all "
    "decisions lost against the best ones."
)
"""The learners as the sentences name them."""

GENERIC = {
    HOLDS: "Borne out in the default setting.",
    ONLY_WHEN: "Borne out only in some of the settings that were run.",
    FAILS: "Borne out in none of the settings that were run, or in too few to say when.",
}
"""What is said where nothing more is known, as after a short run."""

Key = tuple[str, str]


@dataclass(frozen=True)
class Plain:
    """A claim's short name, the claim, and what was found, by verdict; {names} are numbers of the run."""

    label: str
    claimed: str
    found: Mapping[str, str]


def _plain(label: str, claimed: str, verdict: str, found: str) -> Plain:
    return Plain(label, claimed, MappingProxyType({verdict: found}))


PLAIN: Mapping[Key, Plain] = MappingProxyType(
    {
        ("C1", "Fig. 1"): _plain(
            "C1",
            "The more actions are known, the fewer rewards are asked for; answering from the log asks for the fewest.",
            HOLDS,
            "Yes, but the saving is small ({asked} of 100 rounds still need a call), and answering from the log decides worse.",
        ),
        ("C2", "§5.1.1"): _plain(
            "C2",
            "With most actions known, answering from the log asks in about one round of five.",
            ONLY_WHEN,
            "With confidence sets as wide as the guarantee needs it is {asked} of 100; one of five takes sets a tenth as wide, where "
            "nothing is guaranteed.",
        ),
        ("C3", "Fig. 2"): _plain(
            "C3",
            "The more the log tries, the less answering from the log asks; for trusting known actions it does not matter.",
            ONLY_WHEN,
            "When the same actions are known throughout and the log's weights have no cap; with the paper's cap the first part is never "
            "seen.",
        ),
        ("C4", "Fig. 3: OPR worst"): _plain(
            "C4a",
            "Offline learning earns least, however many actions the log never tries.",
            ONLY_WHEN,
            "Always when two in five actions or more are untried; not when the log tries all of them.",
        ),
        ("C4", "Fig. 3: OPR falls"): _plain(
            "C4b",
            "The more actions the log never tries, the less offline learning earns.",
            HOLDS,
            "Yes, at every step and for both ways of learning offline.",
        ),
        ("C4", "Fig. 3: mOFUL flat"): _plain(
            "C4c",
            "Always asking earns the same, whatever the log tried.",
            HOLDS,
            "Yes, exactly: it never reads the log.",
        ),
        ("C4", "Fig. 3: ε variants above mOFUL"): _plain(
            "C4d",
            "For the same number of asked rewards, trusting known actions earns more than always asking.",
            ONLY_WHEN,
            "Surely in {yes} of {all} settings and never the other way; the rest, all with shrunken confidence sets, are too close to "
            "call.",
        ),
        ("C4", "Fig. 3: ε-mOFUL-IPS best"): _plain(
            "C4e",
            "Answering from the log earns the most when the log tries nearly all actions.",
            FAILS,
            "In none of {all} settings surely: it shows no clear difference from merely trusting known actions.",
        ),
        ("C5", "Fig. 4: ε-mOFUL-IPS lowest"): _plain(
            "C5a",
            "On three real data sets answering from the log makes the fewest mistakes.",
            FAILS,
            "Surely so in {yes} of {all} settings, surely not in {no}.",
        ),
        ("C5", "Fig. 4: OPR highest"): _plain(
            "C5b",
            "On three real data sets offline learning makes the most mistakes.",
            ONLY_WHEN,
            "Where the log leaves four in five actions untried, mostly; over all settings it is so in {yes} of {all}, surely not in "
            "{no}.",
        ),
        ("C5", "Fig. 4: ε-mOFUL near mOFUL"): _plain(
            "C5c",
            "On them trusting known actions and always asking make nearly the same mistakes.",
            FAILS,
            "Within two in a hundred surely in {yes} of {all} settings, surely not in {no}; where they differ, trusting is mostly the "
            "better one.",
        ),
        ("C6", "Theorem 1"): _plain(
            "C6",
            "With always asking, the regret of a round falls, and the total stays below a bound known beforehand.",
            HOLDS,
            "Yes in every run. But the bound is above the worst possible regret, so it guarantees nothing at these lengths.",
        ),
        ("C7", "Theorem 2"): _plain(
            "C7",
            "Trusting known actions has such a bound, too.",
            ONLY_WHEN,
            "When a term is added that the printed bound lacks: a world built against the printed one breaks it.",
        ),
        ("C8", "Theorem 3"): _plain(
            "C8",
            "With answering from the log, the regret of a round falls, too.",
            FAILS,
            "One high logged reward can decide a round: if rewards are noisy, the regret goes on even if all else is known.",
        ),
        ("C9", "Proposition 1"): _plain(
            "C9",
            "The error of weighting the log is exactly what unlogged actions would earn.",
            HOLDS,
            "Yes, under all four ways of logging that were tried.",
        ),
        ("C10", "Proposition 2"): _plain(
            "C10",
            "As the log grows, the model of each logged action becomes right.",
            HOLDS,
            "Yes, as fast as expected; actions that are never logged stay unknown, however long the log.",
        ),
        ("T1", "Table 1"): _plain(
            "T1",
            "The three data sets have as many rows and classes as the paper prints.",
            HOLDS,
            "Yes, every one of them.",
        ),
        ("ours", "certified"): _plain(
            "Ours 1",
            "Our certified learner keeps its bound on calls, and skipped rounds lose no more than the tolerance.",
            HOLDS,
            "Yes in every run. But the bound on calls is often above one call a round.",
        ),
        ("mended", "Theorem 3"): _plain(
            "Ours 2",
            "Answering from the log by a confidence limit, not by one logged reward, loses nothing.",
            HOLDS,
            "Yes. But so strict a rule answers hardly any round, so it saves almost nothing.",
        ),
        ("ours", "economical, never asking"): _plain(
            "Ours 3",
            "Our economical learner costs less than never asking, mistakes and asked rewards together.",
            ONLY_WHEN,
            "Surely cheaper in {parts}.",
        ),
        ("ours", "economical, other libraries"): _plain(
            "Ours 4",
            "It costs less than the learners of other libraries, which ask always.",
            ONLY_WHEN,
            "Surely cheaper in {parts}.",
        ),
    }
)
"""By claim and source. Each sentence was written for the verdict of the full run that it stands with."""


def label(verdict: Record) -> str:
    """The short name of a claim."""
    known = PLAIN.get((verdict["claim"], verdict["source"]))
    return known.label if known else verdict["claim"]


def claimed(verdict: Record) -> str:
    """What was claimed; where nobody has put it plainly, as it stands."""
    known = PLAIN.get((verdict["claim"], verdict["source"]))
    return known.claimed if known else str(verdict["says"])


def found(verdict: Record, result: Record) -> str:
    """What was found; nothing that the run does not show."""
    known = PLAIN.get((verdict["claim"], verdict["source"]))
    generic = GENERIC[verdict["verdict"]]
    sentence = known.found.get(verdict["verdict"], generic) if known and result["full"] else generic
    try:
        return sentence.format(**facts(verdict, result))
    except KeyError:  # a number that this run does not have
        return generic


def facts(verdict: Record, result: Record) -> Record:
    """Numbers for the sentences, taken from the results."""
    known: Record = dict(verdict.get("facts", {}))
    counted = re.match(r"borne out in (\d+) of (\d+) settings, contradicted in (\d+)", verdict["measured"])
    if counted:
        known |= dict(zip(("yes", "all", "no"), counted.groups(), strict=True))
    if "shares" in result["numbers"]:
        known["asked"] = f"{100 * result['numbers']['shares']['share'][0]:.0f}"
    return known
