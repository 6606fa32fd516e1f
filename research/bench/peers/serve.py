"""Runs one library's contenders for the parent process: JSON lines in, JSON lines out.

Started as `python serve.py MODULE`, where MODULE is a file beside this one or a module's dotted name. That
module has VERSION and CONTENDERS: name -> a class of learners with `step`, which `worlds.Steps` drives, or a
function(worlds, spec) -> a contender with `run(count)` and, where it must begin anew before each timed run,
`renew()`. The commands are

    {"do": "make", "contender": name, "spec": {...}}   -> {"handle": number}
    {"do": "run", "handle": number, "count": number}   -> {"cpu_seconds": seconds}
    {"do": "drop", "handle": number}                   -> {}

and an answer with "error" says what went wrong. Only the standard library is imported here.
"""

import gc
import importlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def load(name: str) -> Any:
    """A module by its file or its dotted name.

    A file's module gets a name of its own, so that obp.py does not stand in the way of `import obp`.
    """
    if not name.endswith(".py"):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(f"_contenders_{Path(name).stem}", name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Server:
    """Keeps contenders, and times them."""

    def __init__(self, module: Any, worlds: Any) -> None:
        self.module, self.worlds = module, worlds
        self.contenders: dict[int, Any] = {}
        self.made = 0

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Obey one command."""
        action: dict[str, Any] = {"make": self.make, "run": self.run, "drop": self.drop}
        return action[command.pop("do")](**command)

    def make(self, contender: str, spec: dict[str, Any]) -> dict[str, Any]:
        """Prepare a contender, untimed."""
        entry = self.module.CONTENDERS[contender]
        stepped = hasattr(entry, "step")
        self.contenders[self.made] = self.worlds.Steps(spec, entry) if stepped else entry(self.worlds, spec)
        self.made += 1
        return {"handle": self.made - 1}

    def run(self, handle: int, count: int) -> dict[str, Any]:
        """CPU time, user and system, of `count` repetitions."""
        contender = self.contenders[handle]
        if hasattr(contender, "renew"):
            contender.renew()
        start = time.process_time()
        contender.run(count)
        return {"cpu_seconds": time.process_time() - start}

    def drop(self, handle: int) -> dict[str, Any]:
        """Forget a contender and its memory."""
        del self.contenders[handle]
        gc.collect()
        return {}


def main() -> None:
    """Answer commands until there are no more."""
    # Libraries print, some of them from C: what they say goes to the error stream, the answers elsewhere.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        worlds = load(str(Path(__file__).with_name("worlds.py")))
        server = Server(load(sys.argv[1]), worlds)
        say({"version": server.module.VERSION})
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}"})
        return
    for line in sys.stdin:
        try:
            say(server.answer(json.loads(line)))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
