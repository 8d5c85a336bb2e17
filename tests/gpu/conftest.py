"""The GPU that the tests here need. `pytest tests/gpu --pretend` tries them on a pretended one, which shows that the tests work and nothing more."""

from contextlib import contextmanager
from functools import lru_cache

import pytest
import torch
from waiting import Waits

from torchtally.stalls import pretend_cuda
from torchtally.stalls.recorder import Recorder
from torchtally.testing import assert_no_stalls, listen


def pytest_addoption(parser):
    parser.addoption("--pretend", action="store_true", help="Try tests/gpu on a pretended GPU where there is none.")


class PretendedWaits:
    """As `Waits`, of a pretended device."""

    seen = 0

    @contextmanager
    def counted(self):
        with listen(Recorder()) as recorder:
            yield self
        self.seen = len(recorder.stalls)

    def none(self):
        return assert_no_stalls()


real_waits = lru_cache(Waits)  # what listens to the trace cannot be taken away again


@pytest.fixture
def gpu(request):
    """Counts what waits for the GPU; the test is skipped where there is none."""
    if torch.cuda.is_available():
        yield real_waits()
    elif request.config.getoption("--pretend", False):
        with pretend_cuda():
            yield PretendedWaits()
    else:
        pytest.skip("needs a GPU")


@pytest.fixture
def real_gpu():
    """For what a pretended device cannot do."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU, not a pretended one")


@pytest.fixture
def note(request):
    """Keeps what a test measured: it stands in `--junitxml`, and the extremes at the end of the run."""

    def keep(**figures):
        request.node.user_properties.extend(figures.items())

    return keep


def pytest_terminal_summary(terminalreporter):
    reports = [r for r in terminalreporter.stats.get("passed", []) if r.user_properties]
    noted = [(dict(r.user_properties), r.nodeid.rpartition("::")[2]) for r in reports]
    for figure in ("waits", "difference"):
        highest = sorted(((f[figure], name) for f, name in noted if figure in f), reverse=True)
        if highest:
            terminalreporter.write_line(
                f"{figure} of {len(highest)} tests, the highest: " + ", ".join(f"{x:.2g} {name}" for x, name in highest[:3])
            )
