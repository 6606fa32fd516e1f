"""What the container file installs: the locked files of what the service needs, and nothing else."""

import re
from collections import defaultdict
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def pinned(path):
    """Version and hashes of each locked package."""
    found, name = defaultdict(set), None
    for line in path.read_text(encoding="utf-8").splitlines():
        if head := re.match(r"([\w.-]+)==(\S+)", line):
            name = canonicalize_name(head[1])
            found[name].add(head[2])
        elif hashed := re.search(r"--hash=(sha256:\w+)", line):
            found[name].add(hashed[1])
    return found


def needed(name, extras=()):
    """The packages that one needs here, itself included."""
    found = {(canonicalize_name(name), tuple(extras))}
    queue = list(found)
    while queue:
        name, extras = queue.pop()
        for text in distribution(name).requires or ():
            one = Requirement(text)
            if one.marker and not any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                continue
            new = (canonicalize_name(one.name), tuple(sorted(one.extras)))
            if new not in found:
                found.add(new)
                queue.append(new)
    return {name for name, _ in found}


def test_it_is_locked_to_the_tested_files():
    everything, service = pinned(ROOT / "requirements.lock"), pinned(ROOT / "deploy" / "requirements.lock")
    assert {name for name in service if service[name] != everything[name]} == set()
    assert needed("sparing", ["service"]) | needed("hatchling") <= {*service, "sparing"}
    assert not {"pytest", "matplotlib", "scikit-learn"} & set(service)


def test_what_is_deployed_is_confined():
    """The unit filters system calls and writes for its user alone; the container is warmed up by the user who serves; a proxy says that it had TLS."""
    unit = (ROOT / "deploy" / "sparing.service").read_text(encoding="utf-8").splitlines()
    assert {"SystemCallFilter=@system-service", "UMask=0077", "NoNewPrivileges=yes"} <= set(unit)
    steps = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert steps.index("USER 10001") < steps.index("RUN sparing warm-up")
    assert any("--require-hashes" in step for step in steps)
    proxy = (ROOT / "docs" / "how-to" / "proxy.md").read_text(encoding="utf-8")
    assert "proxy_set_header X-Forwarded-Proto $scheme;" in proxy
