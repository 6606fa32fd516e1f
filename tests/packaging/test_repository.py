"""What hosts and tools read of the repository: workflows, hooks, forms. They call what is there, and fetch nothing else."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_workflows_call_targets():
    jobs = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert {"make test", "make thorough", "make dist"} == set(commands)
    assert {command.split()[1] for command in commands} <= TARGETS
    foreign = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", name) for name in foreign)


def test_hooks_are_local_and_call_targets():
    repos = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [each["repo"] for each in repos] == ["local"]
    assert {hook["entry"].removeprefix("make ") for hook in repos[0]["hooks"]} <= TARGETS


@pytest.mark.parametrize(
    "path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.stem
)
def test_forms_have_what_hosts_need(path):
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["attributes"]["label"] for each in fields)


def test_the_versions_of_python_are_those_of_the_readme():
    """Classifiers claim the versions that the README says were tested."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = {each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (3\.\d+) \| (.*) \|$", readme, re.MULTILINE)
    assert claimed == {version for version, tested in table if "not tested" not in tested}
    assert project["requires-python"] == f">={min(claimed, key=lambda version: int(version[2:]))}"
