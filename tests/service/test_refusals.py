"""What is refused is told in the words of those who wrote it."""

import json
import socket

import msgspec
import pytest
from typer.testing import CliRunner

from sparing.cli import app, terminal
from sparing.errors import SettingError
from sparing.service import server
from sparing.service.errors import ServiceError
from sparing.service.http.endpoint import _decoded
from sparing.service.messages import CreateRequest, DecideRequest, ModeRequest, RewardRequest

RULES = {
    "holdut": ("0.1", "--rule holdut is unknown; must be one of reward_window, "),
    "holdout": ("viel", "--rule holdout=viel: expected a number, got a text"),
    "check": ("1.5", "--rule check=1.5: expected a number <= 1.0"),
    "aggregate": ("mean", "--rule aggregate=mean: got 'mean'; must be one of first, sum"),
    "learn_unasked": ("maybe", "--rule learn_unasked=maybe: expected true or false, got a text"),
    "budget_calls": ("1.5", "--rule budget_calls=1.5: expected a whole number, got a number"),
}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def serve(folder, *words):
    log = folder / "log.csv"
    log.write_text("day,action,reward\n" + "".join(f"{i},{'ab'[i % 2]},{i % 3}\n" for i in range(12)))
    return run(
        "serve", folder / "store", "--name", "x", "--log", log, "--call-cost", "0.1", "--port", "0", *words
    )


@pytest.mark.parametrize("name", RULES)
def test_a_wrong_rule(tmp_path, name):
    value, said = RULES[name]
    done = serve(tmp_path, "--rule", f"{name}={value}")
    assert isinstance(done.exception, SettingError)
    told = terminal.as_cli_options(str(done.exception), ["serve"])
    assert told.startswith(said)
    assert "`" not in told
    assert not (tmp_path / "store").exists()


def test_a_rule_without_a_value_is_told_as_one(tmp_path):
    told = terminal.as_cli_options(str(serve(tmp_path, "--rule", "holdout").exception), ["serve"])
    assert told == "--rule holdout: expected NAME=VALUE, such as --rule holdout=0.05"


@pytest.mark.parametrize("word", ["true", "1"])
def test_a_truth_value_is_a_rule_on_the_command_line(word):
    assert server.parse_rules({"learn_unasked": word}).learn_unasked is True


def test_a_port_in_use_changes_nothing(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = serve(tmp_path, "--port", taken.getsockname()[1])
    assert "cannot bind 127.0.0.1 port" in str(done.exception)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("kind", "body", "said", "field"),
    [
        (RewardRequest, {"value": "viel"}, "expected a number, got a text; see", "value"),
        (RewardRequest, {"reward": 1}, "unknown field `reward`; must be one of value, ", None),
        (DecideRequest, {}, "missing field `context`; see", None),
        (DecideRequest, {"context": 3}, "expected an object or a list, got a whole number; see", "context"),
        (
            ModeRequest,
            {"mode": "off"},
            "got 'off'; must be one of fallback, live, paused, shadow; see",
            "mode",
        ),
        (
            ModeRequest,
            {"mode": 3},
            "expected one of fallback, live, paused, shadow, got a whole number; see",
            "mode",
        ),
        (
            CreateRequest,
            {"options": {"aggregate": "mean"}},
            "got 'mean'; must be one of first, sum; see",
            "options.aggregate",
        ),
        (
            list[ModeRequest],
            [{"mode": "off"}],
            "got 'off'; must be one of fallback, live",
            "[0].mode",
        ),
        (DecideRequest, {"context": {}, "eligible": []}, "expected a list of length >= 1; see", "eligible"),
    ],
)
def test_a_body_that_does_not_fit(kind, body, said, field):
    with pytest.raises(ServiceError) as refused:
        _decoded(msgspec.json.Decoder(kind), json.dumps(body).encode())
    assert refused.value.detail.startswith(said)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"context": {"age": NaN}}', "send null for a missing value"),
        (b'{"context": [1, -Infinity]}', "send null for a missing value"),
        (b"", "the body is not JSON: it is empty"),
        (b"hello NaN", "the body is not JSON: invalid character (byte 0)"),
    ],
)
def test_a_body_that_is_no_json(body, said):
    with pytest.raises(ServiceError) as refused:
        _decoded(msgspec.json.Decoder(DecideRequest), body)
    assert refused.value.status == 400
    assert refused.value.detail.endswith(said)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"context": {"age": 3, "age": 4}}', "age"),
        (b'{"context": {"age": 3}, "context": {"age": 4}}', "context"),
        (b'{"context": {"a": ":", "b": {"c": 1, "c" : 1}}}', "c"),
        (b'{"context": {"a": "\\u003a", "age": 1, "\\u0061ge": 2}}', "age"),
        (b'{"context": {"a": ":", "a": 2}}', "a"),
    ],
)
def test_a_field_that_stands_twice_is_named(body, key):
    with pytest.raises(ServiceError) as refused:
        _decoded(msgspec.json.Decoder(DecideRequest), body)
    assert (refused.value.status, refused.value.code, refused.value.field) == (422, "repeated_field", key)
    assert f"'{key}' stands twice in one object" in refused.value.detail


@pytest.mark.parametrize(
    "context",
    [
        {"time": "2026-03-01T08:00:00", "note": '":":"a":1', "deep": [{"a": 1}, {"a": ":"}]},
        {"id": 10**30, "colon": ":", "é": "\u2028", "": {}},
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_colons_within_texts_are_no_fields(context, ascii_only):
    raw = json.dumps({"context": context, "subject": ":"}, ensure_ascii=ascii_only).encode()
    for body in (raw, raw.replace(b'":"', b'"\\u003a"')):
        assert _decoded(msgspec.json.Decoder(DecideRequest), body).context == context


def test_a_key_for_a_new_store_says_so(tmp_path):
    first, second = (run("keys", "add", tmp_path / "shop", name) for name in ("web", "other"))
    assert "shop is a new store" in first.stderr
    assert "new store" not in second.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--call-cost", "zehn"], "got 'zehn'; expected a number with a decimal point"),
        (["--call-cost", "0,5"], "got '0,5'; expected a number with a decimal point"),
        (["--horizon", "1e4"], "got '1e4'; expected a whole number"),
        (["--port", "99999"], "got '99999'. "),
    ],
)
def test_an_option_that_does_not_fit(tmp_path, words, said):
    done = serve(tmp_path, *words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_serving_says_whether_a_key_is_needed(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(server, "run", lambda *given, locked, say: told.append(locked))
    for words in (["serve"], ["keys", "add", "web"], ["serve"]):
        command, *rest = words
        done = run(
            command, *rest[:1], tmp_path / "shop", *rest[1:], *(["--port", "0"] if command == "serve" else [])
        )
        assert done.exit_code == 0, done.output
    assert told == [False, True]


def test_words_that_are_features_are_told_before_they_are_served(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "run", lambda *given, locked, say: None)
    log = tmp_path / "log.jsonl"
    rows = [
        {"context": {"country": ["NZ", "CH"][i % 2]}, "action": "ab"[i % 3 % 2], "reward": i % 2}
        for i in range(40)
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["serve", tmp_path / "store", "--log", log, "--port", "0", "--learner", "warm_started"]
    plain, auto = run(*words, "--name", "x"), run(*words, "--name", "y", "--features", "auto")
    assert plain.exit_code == auto.exit_code == 0, plain.output + auto.output
    assert "use --features auto" in plain.stderr
    assert "use --features auto" not in auto.stderr
    assert "features: country: category of 2 values" in auto.stderr
