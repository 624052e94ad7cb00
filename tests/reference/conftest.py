"""Shared by the differential tests: the program, a seed, and the number of cases.

TRIREME_SEED (default 1) determines every random file and text; TRIREME_SCALE (default 1) multiplies
their number; TRIREME_BINARY names another program than the release build.
"""
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("TRIREME_SEED", "1"))
SCALE = float(os.environ.get("TRIREME_SCALE", "1"))
BINARY = Path(os.environ.get("TRIREME_BINARY", ROOT / "build/release/src/cli/trireme"))


class Program:
    """The program under test. A call runs it and checks its exit code, unless `code` is None."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *arguments, code=0, input=None, cwd=None, env=None, timeout=300):
        """Runs `trireme ARGUMENTS...`. Returns the finished process, whose stdout and stderr are
        bytes if `input` is bytes, and text otherwise. `env` adds to the environment."""
        done = subprocess.run([self.path, *map(str, arguments)], input=input, cwd=cwd,
                              env={**os.environ, **(env or {})}, timeout=timeout,
                              capture_output=True, text=not isinstance(input, bytes))
        assert code is None or done.returncode == code, (
            f"trireme {' '.join(map(str, arguments))}\nexit code {done.returncode}, not {code}\n"
            f"{done.stdout}{done.stderr}")
        return done

    def json(self, *arguments, **how):
        """Like a call, and parses the output as one JSON value."""
        return json.loads(self(*arguments, **how).stdout)

    def lines(self, *arguments, **how):
        """Like a call, and parses the output as one JSON value per line."""
        return [json.loads(line) for line in self(*arguments, **how).stdout.split("\n") if line]


@pytest.fixture(scope="session")
def trireme():
    if not BINARY.exists():
        pytest.exit(f"{BINARY} does not exist: build it, or start with ./test reference", 2)
    return Program(BINARY)


@pytest.fixture
def rng(request):
    """A random.Random for this test alone: the same draws whichever other tests run."""
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture(scope="session")
def tries():
    """Returns tries(n): the number of cases if the default is n."""
    return lambda default: max(1, round(default * SCALE))


def pytest_report_header():
    return f"TRIREME_SEED={SEED} TRIREME_SCALE={SCALE:g}"


def pytest_configure(config):
    config.counts = dict.fromkeys(("passed", "failed", "skipped"), 0)


def pytest_terminal_summary(terminalreporter, config):
    stats = terminalreporter.stats
    config.counts = {
        "passed": len(stats.get("passed", [])),
        "failed": len(stats.get("failed", [])) + len(stats.get("error", [])),
        "skipped": len(stats.get("skipped", [])),
    }


def pytest_unconfigure(config):
    print(", ".join(f"{count} {kind}" for kind, count in config.counts.items()))
