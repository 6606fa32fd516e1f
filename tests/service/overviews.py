"""Overviews as the service would send them: of a busy experiment, of a thousand actions, of an empty one, of hostile words."""

import random
from datetime import UTC, datetime

from msgspec.structs import replace

from sparing.service.messages import (
    Action,
    ContributionAnswer,
    ExplanationAnswer,
    GapRow,
    Gaps,
    Headline,
    Health,
    Hour,
    Look,
    Measured,
    Overview,
    Reasons,
    Recent,
    Record,
    SampleRatio,
    Snapshot,
    SoFar,
    Spend,
    WordAnswer,
    WorkerState,
)

NOW = 1_782_907_380  # 2026-07-01 12:03 UTC
ASKED = {"explore": "policy", "spot-check": "policy", "check": "check", "holdout": "holdout"}
GUARANTEE = (
    "a reward is requested only if its expected value over 200,000 rounds exceeds its cost of 0.05, as far as the posterior "
    "knows (prior learnt from 9,000 rows); designed so that regret and calls together cost no more on average than the log "
    "alone, which is proved for one call ahead and tested for more; no guarantee for each environment; rests on linear rewards, on "
    "contexts to come being like the log's, and on unlogged actions being exchangeable with logged ones"
)
ACTIONS = [  # label, rows in the log, learnt, share of decisions, estimate, half its interval
    ("no-action", 1080, "yes", 0.579, 0.802, 0.021),
    ("article", 1099, "yes", 0.236, 0.561, 0.024),
    ("free-month", 728, "partly", 0.082, 0.453, 0.031),
    ("discount-10", 1078, "yes", 0.061, 0.512, 0.026),
    ("live-chat", 1085, "yes", 0.027, 0.462, 0.028),
    ("referral", 0, "never tried", 0.006, 0.041, 0.281),
    ("survey", 1089, "yes", 0.004, 0.197, 0.033),
    ("partner-offer", 0, "never tried", 0.003, -0.012, 0.362),
    ("upgrade", 0, "never tried", 0.002, -0.188, 0.397),
    ("call-back", 1061, "yes", 0.0, 0.151, 0.032),
    ("video-tour", 1134, "yes", 0.0, -0.214, 0.031),
    ("discount-5", 646, "partly", 0.0, -0.652, 0.058),
]
PLACES = ["tenure > 3 y", "tenure ≤ 3 y", "no card on file", "card on file", "mobile", "desktop"]


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def measured(value: float, half: float, rewards: int) -> Measured:
    return Measured(round(value, 4), round(value - half, 4), round(value + half, 4), rewards)


def steps(
    luck: random.Random, *, count: int = 48, scale: float = 1.0, free: str = "not-worth-it"
) -> list[Hour]:
    """The last `count` hours, of which the last is three minutes old."""
    hours = []
    for number in range(count):
        part = scale * (0.05 if number == count - 1 else 1.0)
        busy = 1 + 0.18 * ((number + 12) % 24 - 12) / 12 * (1 if number % 24 < 12 else -1)
        chances = {
            free: 395 + 0.6 * number,
            "pending": 13,
            "explore": 40 + 25 * 0.93**number,
            "spot-check": 5,
            "check": 9,
            "holdout": 25,
        }
        drawn = {
            reason: round(part * busy * mean * luck.uniform(0.93, 1.07)) for reason, mean in chances.items()
        }
        hours.append(Hour(NOW - 180 - 3600 * (count - 1 - number), {r: n for r, n in drawn.items() if n}))
    return hours


def totals(hours: list[Hour]) -> list[Reasons]:
    summed: dict[str, int] = {}
    for hour in hours:
        for reason, decisions in hour.decisions.items():
            summed[reason] = summed.get(reason, 0) + decisions
    return [
        Reasons(
            reason, ASKED.get(reason, "policy"), reason in ASKED, n, round(0.9 * n) * (reason in ASKED), None
        )
        for reason, n in sorted(summed.items())
    ]


def so_far(luck: random.Random, hours: list[Hour]) -> list[SoFar]:
    points = []
    for number, hour in enumerate(hours, start=1):
        wobble = luck.gauss(0, 0.035) / number**0.5
        policy = measured(0.885 - 0.12 / number + wobble, 0.31 / number**0.5, 84 * number)
        holdout = measured(0.268 + 0.04 / number - 2 * wobble, 0.25 / number**0.5, 25 * number)
        points.append(SoFar(min(hour.start + 3600, NOW), policy, holdout if number > 1 else None))
    return points


def recent(luck: random.Random, labels: list, count: int = 20, free: str = "not-worth-it") -> list[Recent]:
    reasons = [free] * 5 + ["check", "explore", "pending", "explore", "holdout", "spot-check"]
    rows = []
    for number in range(count):
        reason = reasons[number % len(reasons)]
        asked = reason in ASKED
        come = asked and number > 6
        outcome = ("expired" if number == 9 else "reward") if come else None
        reward = round(luck.gauss(0.8, 0.4), 2) if outcome == "reward" else None
        when = iso(NOW - 3 - 7.4 * number)
        rows.append(
            Recent(
                f"01a1e77c-0000-7000-8000-{number:012d}",
                when,
                labels[number % 4],
                asked,
                reason,
                ASKED.get(reason, "policy"),
                reward,
                outcome,
            )
        )
    return rows


def gaps(luck: random.Random, labels: list, never: list[bool], places: list[str], left_out: int = 0) -> Gaps:
    rows = []
    for number, where in enumerate(places):
        blind = [gone or (number == 0 and place == 2) for place, gone in enumerate(never)]
        logged = [0 if gone else luck.randint(200, 760) for gone in blind]
        live = [luck.randint(0, 14) if gone else luck.randint(20, 300) for gone in blind]
        rows.append(GapRow(where, logged, live, blind))
    return Gaps(labels, rows, left_out)


def health(model_seq: int) -> Health:
    digest = "440a6f95c1d2e3b4"
    return Health(
        status="healthy",
        store="PostgreSQL",
        store_bytes=61_203_456,
        model_seq=model_seq,
        digest=digest,
        workers=[WorkerState("4711", model_seq, digest), WorkerState("4712", model_seq, digest)],
        snapshot=Snapshot(model_seq - model_seq % 1000, iso(NOW - 41)),
        last_backup=iso(NOW - 12 * 60),
        decide_ms=(3.9, 31.2),
        started=iso(NOW - 3 * 86400),
        version="0.2.0",
    )


def offers(asked: int, decisions: int) -> list[Action]:
    """The retention offers, with what each earned."""
    return [
        Action(
            label,
            logged,
            round(asked * share),
            round(decisions * share),
            share,
            learnt,
            False,
            value,
            value - half,
            value + half,
        )
        for label, logged, learnt, share, value, half in ACTIONS
    ]


def retention() -> Overview:
    """Retention offers: twelve actions, of which three were never tried."""
    luck = random.Random(7)
    hours = steps(luck)
    reasons = totals(hours)
    decisions = sum(row.decisions for row in reasons)
    asked = sum(row.decisions for row in reasons if row.asked)
    checks = next(row.decisions for row in reasons if row.reason == "check")
    labels = [row[0] for row in ACTIONS]
    points = so_far(luck, hours)
    policy, holdout = points[-1].policy, points[-1].holdout
    assert policy is not None
    assert holdout is not None
    half = ((policy.high - policy.value) ** 2 + (holdout.high - holdout.value) ** 2) ** 0.5
    return Overview(
        name="retention-offers",
        time=iso(NOW),
        mode="live",
        asking="serve",
        learner="economical",
        guarantee=GUARANTEE,
        log_rows=9000,
        decisions=decisions,
        asked=asked,
        skipped=decisions - asked,
        saved=(decisions - asked) / decisions,
        rewarded=asked - 412 - 61,
        expired=61,
        reasons=reasons,
        headline=Headline(
            why=None,
            policy=policy,
            holdout=holdout,
            difference=measured(policy.value - holdout.value, half, policy.rewards + holdout.rewards),
            checks=checks,
            sample_ratio=SampleRatio(0.05, 0.0507, 0.62),
        ),
        spend=Spend(
            calls=asked,
            price=0.4,
            unit="€",
            spent=0.4 * asked,
            not_spent=0.4 * (decisions - asked),
            budget_calls=5000,
            period_calls=asked,
            period_ends=iso(NOW + 29 * 86400),
            runs_out=iso(NOW + 11.4 * 3600),
            open=412,
            most_open=1000,
        ),
        step=3600,
        hours=hours,
        so_far=points,
        actions=offers(asked, decisions),
        level=0.95,
        look=[
            Look(
                "warning",
                "Three actions were never in the log: upgrade, referral, partner-offer. 45 live calls have ruled none of them in.",
            ),
            Look("warning", "The budget of 5,000 calls will be used up in 11 hours at the last day's rate."),
            Look("good", "Live rewards match the log: surprise 1.02 (alarm above 1.09)."),
            Look("good", "Holdout share 5.07 % of 5 % asked: no sample-ratio mismatch."),
        ],
        shift=None,
        gaps=gaps(luck, labels, [row[2] == "never tried" for row in ACTIONS], PLACES),
        recent=recent(luck, labels),
        health=health(28_604),
    )


def shadowed() -> Overview:
    """The retention offers, whose rewards are bought by shadow calls: nobody is served an experiment."""
    base = retention()
    called = ("explore", "spot-check")
    hours = [replace(hour, decisions=renamed(hour.decisions, called)) for hour in base.hours]
    kept = [row for row in base.reasons if row.reason not in called]
    calls = [replace(row, arm="also") for row in base.reasons if row.reason in called]
    served = sum(row.decisions for row in calls)
    recent = []
    for row in base.recent:
        if row.reason in called:
            recent.append(replace(row, arm="also", action="upgrade"))
            row = replace(row, reason="also", needs_reward=False, reward=None, outcome=None)
        recent.append(row)
    return replace(
        base,
        asking="shadow",
        hours=hours,
        reasons=[*kept, *calls, Reasons("also", "policy", False, served, 0, None)],
        recent=recent,
    )


def renamed(decisions: dict[str, int], called: tuple[str, ...]) -> dict[str, int]:
    """Decisions by reason, of which those called were served with a shadow call."""
    kept = {reason: n for reason, n in decisions.items() if reason not in called}
    return kept | {"also": sum(decisions.get(reason, 0) for reason in called)}


def ranked(luck: random.Random, ranks: list[int], asked: int, decisions: int) -> list[Action]:
    """Actions that are shown the less, the higher their rank."""
    weights = [1 / (1 + rank) ** 1.1 for rank in range(len(ranks))]
    actions = []
    for number, rank in enumerate(ranks):
        never = rank % 33 in (7, 13, 20, 26, 30, 31, 32)
        logged = 0 if never else luck.randint(4, 900)
        half = 0.9 if never else 0.6 / (1 + logged) ** 0.5
        value = round(luck.gauss(0.1 - 0.0008 * rank, 0.05), 4)
        share = weights[rank] / sum(weights)
        learnt = "never tried" if never else "partly" if logged < 60 else "yes"
        retired = rank in (5, 400)
        live = round(0.8 * asked * share) + luck.randint(0, 2)
        label = f"item-{number:04}"
        actions.append(
            Action(
                label,
                logged,
                live,
                round(decisions * share),
                share,
                learnt,
                retired,
                value,
                value - half,
                value + half,
            )
        )
    return actions


def thousand() -> Overview:
    """A thousand actions, of which a fifth were never tried, and a million decisions; nobody holds anything out."""
    luck = random.Random(11)
    ranks = list(range(1000))
    luck.shuffle(ranks)
    hours = steps(luck, count=120, scale=25, free="confident")
    reasons = totals(hours)
    decisions = sum(row.decisions for row in reasons)
    asked = sum(row.decisions for row in reasons if row.asked)
    actions = ranked(luck, ranks, asked, decisions)
    untried = sum(row.learnt == "never tried" for row in actions)
    gone = [row.label for row in actions if row.learnt == "never tried"][:13]
    shown = [*gone, *(row.label for row in actions if row.learnt == "yes")][:16]
    base = retention()
    return replace(
        base,
        name="front-page-items",
        learner="confident",
        log_rows=2_400_000,
        decisions=decisions,
        asked=asked,
        skipped=decisions - asked,
        saved=(decisions - asked) / decisions,
        rewarded=asked - 3120 - 1874,
        expired=1874,
        reasons=reasons,
        hours=hours,
        so_far=[SoFar(point.end, point.policy, None) for point in base.so_far],
        headline=Headline(
            "no holdout: set holdout to a share such as 0.05 to compare with the logging policy",
            base.headline.policy,
            None,
            None,
            0,
            None,
        ),
        spend=Spend(asked, None, "", None, None, None, 0, None, None, 3120, None),
        actions=actions,
        look=[
            Look(
                "alarm",
                "Live rewards do not match the log: surprise 1.31 (alarm above 1.09). The world may have changed since.",
            ),
            Look("warning", f"{untried} of 1,000 actions were never in the log."),
        ],
        gaps=gaps(
            luck,
            shown,
            [True] * len(gone) + [False] * (16 - len(gone)),
            [f"cluster {n}" for n in range(9)],
            199,
        ),
        recent=recent(luck, [row.label for row in actions], free="confident"),
        health=replace(
            base.health,
            status="degraded",
            store="SQLite",
            store_bytes=4_812_300_288,
            last_backup=None,
            workers=base.health.workers[:1],
        ),
    )


def empty() -> Overview:
    """An experiment that nobody has asked yet."""
    base = retention()
    assert base.gaps is not None
    return replace(
        base,
        name="new-experiment",
        decisions=0,
        asked=0,
        skipped=0,
        saved=None,
        rewarded=0,
        expired=0,
        reasons=[],
        headline=Headline("no reward has come yet", None, None, None, 0, None),
        spend=Spend(0, 0.4, "€", 0.0, 0.0, None, 0, None, None, 0, None),
        hours=[],
        so_far=[],
        actions=[replace(row, live=0, decisions=0, share=0.0) for row in base.actions],
        look=[Look("warning", "Three actions were never in the log: upgrade, referral, partner-offer.")],
        gaps=replace(base.gaps, rows=[replace(row, live=[0] * len(row.live)) for row in base.gaps.rows]),
        recent=[],
        health=replace(
            base.health,
            store="SQLite",
            store_bytes=98_304,
            model_seq=0,
            workers=[WorkerState("4711", 0, base.health.digest)],
            snapshot=None,
            last_backup=None,
            decide_ms=None,
            started=iso(NOW - 20),
        ),
    )


HOSTILE = [
    "<img src=x onerror=\"document.title='taken'\">",
    "</script><script>document.title='taken'</script>",
    "a-label-" + "that-never-ends-" * 12,
    True,
    False,
    3,
    -0.5,
    "",
    "‮right-to-left",
    "with a\nnew line & \"quotes\"",
]  # fmt: skip


def hostile() -> Overview:
    """Labels and sentences that try to be markup, are far too long, or are no words at all."""
    luck = random.Random(3)
    base = retention()
    never = [number % 3 == 0 for number in range(len(HOSTILE))]
    actions = [replace(row, label=label) for row, label in zip(base.actions, HOSTILE, strict=False)]
    return replace(
        base,
        name="x" * 63,
        mode="paused",
        learner="<b>economical</b>",
        guarantee="none: <script>document.title='taken'</script>" + " and so on" * 200,
        spend=replace(base.spend, unit="<i>€</i>", period_calls=5000, runs_out=None),
        headline=replace(
            base.headline, difference=measured(-0.01, 0.04, 900), sample_ratio=SampleRatio(0.05, 0.09, 1e-9)
        ),
        hours=[
            replace(hour, decisions={**hour.decisions, "budget": 40, "<b>new</b>": 12}) for hour in base.hours
        ],
        actions=actions,
        look=[Look("alarm", str(label) * 3) for label in HOSTILE[:3]],
        gaps=gaps(luck, HOSTILE, never, [str(label) for label in HOSTILE[:4]]),
        recent=[
            replace(row, reason="<b>new</b>", action=label)
            for row, label in zip(base.recent, HOSTILE, strict=False)
        ],
        health=replace(
            base.health,
            store="<u>store</u>",
            version="<u>0</u>",
            workers=[WorkerState("1", 9, "aa"), WorkerState("2", 9, "bb")],
        ),
    )


def explained(columns: dict | None = None, *, model_seq: int = 812) -> Record:
    """A decision with an explanation whose parts sum; `columns` are values by name."""
    luck = random.Random(4)
    given = columns or {
        "age": 31,
        "plan": "annual",
        "tenure": 18.5,
        "country": "NZ",
        "since": "2024-05-01",
        "visits": 310,
    }
    parts = [
        ContributionAnswer(name, "number", value, luck.gauss(0, 0.08), luck.gauss(0, 0.05), "", [])
        for name, value in given.items()
    ]
    parts[0].note, parts[-1].note = "missing", "beyond the log, counted as 85.1"
    parts[0].value = None
    first = WordAnswer(str(parts[1].value), 0.5 * parts[1].amount, 2 * parts[1].gap)
    parts[1].words = [first, WordAnswer("", parts[1].amount - first.amount, parts[1].gap - first.gap)]
    estimate, gap = 0.71 + sum(one.amount for one in parts), -0.02 + sum(one.gap for one in parts)
    against = "<b>no-action</b>" if columns else "no-action"
    found = ExplanationAnswer("call", against, estimate, gap, 0.71, -0.02, parts, 9000, 815)
    chances = ("policy", 1.0, 1.0, 0.7, 0.6, 0.8)
    return Record(
        "01a1e77c-0000-7000-8000-000000000000",
        813,
        iso(NOW),
        "call",
        True,
        "explore",
        *chances,
        model_seq,
        None,
        None,
        None,
        None,
        found,
    )


def scaled(scale: float, count: int = 1, *, offset: float = 0.0) -> Overview:
    """The busy experiment with rewards and money `scale` times as large, moved by `offset`, and `count` times as many decisions."""
    base = retention()

    def times(one: Measured | None) -> Measured | None:
        if one is None:
            return None
        value, low, high = (offset + scale * each for each in (one.value, one.low, one.high))
        return Measured(value, low, high, one.rewards * count)

    def moved(row: Action) -> Action:
        value, low, high = (offset + scale * each for each in (row.value, row.low, row.high))
        more = {name: count * getattr(row, name) for name in ("logged", "live", "decisions")}
        return replace(row, value=value, low=low, high=high, cost=scale, **more)

    headline, spend, health = base.headline, base.spend, base.health
    return replace(
        base,
        log_rows=base.log_rows * count,
        decisions=base.decisions * count,
        asked=base.asked * count,
        skipped=base.skipped * count,
        rewarded=base.rewarded * count,
        expired=7 * count,
        reasons=[replace(row, decisions=row.decisions * count) for row in base.reasons],
        headline=replace(
            headline,
            policy=times(headline.policy),
            holdout=times(headline.holdout),
            difference=times(headline.difference),
            checks=headline.checks * count,
        ),
        spend=replace(
            spend,
            calls=spend.calls * count,
            price=scale,
            spent=scale * spend.calls * count,
            not_spent=scale * spend.calls * count * 3,
            budget_calls=10**12,
            period_calls=spend.calls * count,
            open=spend.open * count,
        ),
        hours=[
            replace(hour, decisions={k: n * count for k, n in hour.decisions.items()}) for hour in base.hours
        ],
        so_far=[replace(one, policy=times(one.policy), holdout=times(one.holdout)) for one in base.so_far],
        actions=[moved(row) for row in base.actions],
        gaps=base.gaps
        and replace(
            base.gaps,
            rows=[
                replace(row, logged=[n * count for n in row.logged], live=[n * count for n in row.live])
                for row in base.gaps.rows
            ],
        ),
        recent=[
            replace(row, reward=None if row.reward is None else offset + scale * row.reward)
            for row in base.recent
        ],
        health=replace(
            health, store_bytes=10**17, model_seq=health.model_seq * count, decide_ms=(12345678.9, 1e12)
        ),
    )
