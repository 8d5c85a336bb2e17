"""The pytest plugin: `@pytest.mark.no_stalls` and `--stalls`. It loads neither torch nor torchtally until a test asks for it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

MARK = "no_stalls(allow=(), at_most=0, own=()): fail the test if it makes the host wait for the GPU; see torchtally.testing.assert_no_stalls"

_recorder = pytest.StashKey[Any]()
_found = pytest.StashKey["dict[str, str]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("torchtally").addoption(
        "--stalls", action="store_true", help="List, at the end, where the tests make the host wait for the GPU. Without a GPU they run on a pretend one."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)
    config.stash[_found] = {}


def _mark(item: pytest.Item) -> pytest.Mark | None:
    mark = item.get_closest_marker("no_stalls")
    if mark is not None and (mark.args or not set(mark.kwargs) <= {"allow", "at_most", "own"}):
        raise pytest.UsageError(f"{item.nodeid}: no_stalls got {mark.args or ''}{mark.kwargs or ''}; expected {MARK.partition(':')[0]} with keywords only")
    return mark


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    mark = _mark(item)
    if mark is None and not item.config.getoption("--stalls"):
        return (yield)
    from torchtally.stalls.recorder import Recorder
    from torchtally.testing import listen

    recorder = Recorder(own=mark.kwargs.get("own", ()) if mark else ())
    item.stash[_recorder] = recorder
    with ExitStack() as stack:  # fixtures see the device too, but only the test's own waits count
        stack.enter_context(listen(recorder))
        stack.enter_context(recorder.paused())
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    recorder = item.stash.get(_recorder, None)
    if recorder is None:
        return (yield)
    from torchtally.testing import judge

    with recorder.resumed():
        result = yield
    mark = _mark(item)
    if mark is not None:
        judge(recorder.report(item.nodeid), mark.kwargs.get("allow", ()), mark.kwargs.get("at_most", 0))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    recorder = item.stash.get(_recorder, None)
    if recorder is not None and call.when == "call" and item.config.getoption("--stalls") and recorder.stalls:
        from torchtally.stalls.stall import group
        from torchtally.testing import describe

        # plain text: it travels from the workers of pytest-xdist
        vars(report)["torchtally_stalls"] = "\n".join(describe(row) for row in group(tuple(recorder.stalls), None))
    return report


def pytest_report_teststatus(report: Any, config: pytest.Config) -> None:
    """Called once per report in the main process, whichever process ran the test."""
    text = getattr(report, "torchtally_stalls", None)
    if text is not None:
        config.stash[_found][report.nodeid] = text


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--stalls"):
        return
    found = config.stash[_found]
    terminalreporter.section("stalls")
    if not found:
        terminalreporter.write_line("no test made the host wait for the GPU")
    for nodeid, text in found.items():
        terminalreporter.write_line(nodeid, bold=True)
        terminalreporter.write_line(text)
