"""`assert_no_stalls` and the pytest plugin: what passes, what fails, and how it reads."""

import asyncio
import os
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

import torchtally

pytest.importorskip("torchtally.stalls.sources.pretend")
from torchtally.testing import assert_no_stalls

pytest_plugins = ["pytester"]
SOURCES = str(Path(torchtally.__file__).parents[1])


def test_nothing_is_raised_where_nothing_waits():
    with assert_no_stalls():
        x = torch.ones(3, device="cuda")
        assert (x * 2).device.type == "cuda"


def test_the_message_names_line_kind_and_remedy():
    with pytest.raises(AssertionError) as caught, assert_no_stalls():
        x = torch.ones(3, device="cuda")
        for _ in range(2):
            x.sum().item()
    text = str(caught.value)
    assert text.startswith("2 stalls; expected none:\n  2x read (aten::_local_scalar_dense) at ")
    assert f"test_testing.py:{test_the_message_names_line_kind_and_remedy.__code__.co_firstlineno + 4} in test_the_message" in text
    assert "        x.sum().item()\n" in text
    assert "→ " in text


def test_what_is_allowed_does_not_count():
    with assert_no_stalls(allow=["test_testing.py"]):
        torch.ones(3, device="cuda").sum().item()
    with assert_no_stalls(at_most=1):
        torch.ones(3, device="cuda").sum().item()
    with pytest.raises(AssertionError, match="1 stall; expected none"), assert_no_stalls(allow=["elsewhere.py:3"]):
        torch.ones(3, device="cuda").sum().item()
    with pytest.raises(TypeError, match=r"expected a list of them: allow=\['a.py'\]"):
        assert_no_stalls(allow="a.py")


def test_an_error_inside_is_not_hidden():
    with pytest.raises(ZeroDivisionError), assert_no_stalls():
        torch.ones(3, device="cuda").sum().item()
        _ = 1 / 0


def test_as_a_decorator_it_judges_each_call():
    @assert_no_stalls()
    def total(read):
        """Sum."""
        s = torch.ones(3, device="cuda").sum()
        return s.item() if read else s

    assert total.__doc__ == "Sum."
    for _ in range(2):
        total(read=False)
        with pytest.raises(AssertionError, match="1x read"):
            total(read=True)


def test_coroutines_are_judged_and_generators_refused():
    @assert_no_stalls()
    async def read():
        await asyncio.sleep(0)
        return torch.ones(1, device="cuda").item()

    with pytest.raises(AssertionError, match="1 stall"):
        asyncio.run(read())
    with pytest.raises(TypeError, match="cannot wrap the generator"):

        @assert_no_stalls()
        def some():
            yield 1


TESTS = """
    import pytest, torch

    @pytest.fixture
    def x():
        value = torch.ones(3).to("cuda")  # setting up may wait
        value.sum().item()
        return value

    @pytest.mark.no_stalls
    def test_good(x):
        x.mul(2)

    @pytest.mark.no_stalls
    def test_bad(x):
        x.sum().item()

    @pytest.mark.no_stalls(allow=["test_allowed"])
    def test_allowed(x):
        x.sum().item()

    @pytest.mark.no_stalls(at_most=1)
    def test_few(x):
        x.sum().item()

    def test_not_marked():
        assert not torch.cuda.is_available()
        torch.ones(3).sum().item()
"""


@pytest.fixture
def plugin(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in (SOURCES, os.environ.get("PYTHONPATH")) if p))

    def run(*options, text=TESTS, subprocess=False):
        pytester.makepyfile(text)
        runner = pytester.runpytest_subprocess if subprocess else pytester.runpytest_inprocess
        installed = any(e.value == "torchtally_pytest" for e in entry_points(group="pytest11"))
        return runner(*([] if installed else ["-p", "torchtally_pytest"]), "-p", "no:cacheprovider", "--strict-markers", *options)

    return run


def test_marked_tests_fail_where_they_wait(plugin):
    result = plugin("-rA")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*AssertionError: 1 stall; expected none:", "*1x read (aten::_local_scalar_dense) at test_*.py:* in test_bad", "*x.sum().item()*", "*→*"])
    result.stdout.fnmatch_lines(["FAILED *::test_bad*"])


def test_a_report_of_all_tests_ends_the_session(plugin):
    text = """
        import torch

        def test_reads():
            assert torch.cuda.is_available()
            torch.ones(3, device="cuda").sum().item()

        def test_keeps():
            torch.ones(3, device="cuda").sum()
    """
    result = plugin("--stalls", text=text)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*= stalls =*", "*::test_reads", "*1x read (aten::_local_scalar_dense) at *", "*→*"])
    result.stdout.no_fnmatch_line("*::test_keeps")


def test_nothing_to_report_is_said(plugin):
    result = plugin("--stalls", text="def test_nothing(): pass")
    result.stdout.fnmatch_lines(["no test made the host wait for the GPU"])


@pytest.mark.parametrize("mark", ["no_stalls(3)", pytest.param("no_stalls(budget=3)", marks=pytest.mark.slow)])
def test_a_mistake_in_the_mark_is_said(plugin, mark):
    result = plugin(text=f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass")
    assert "no_stalls got" in result.stdout.str() + result.stderr.str()
    assert result.ret != 0


def test_torch_is_not_imported_until_a_test_asks(plugin):
    text = """
        import sys
        def test_it():
            assert "torch" not in sys.modules
            assert "torchtally" not in sys.modules
    """
    plugin(text=text, subprocess=True).assert_outcomes(passed=1)


@pytest.mark.slow
def test_reports_of_workers_come_together(plugin):
    pytest.importorskip("xdist")
    result = plugin("--stalls", "-n", "1", text="import torch\ndef test_reads(): torch.ones(3, device='cuda').sum().item()", subprocess=True)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*= stalls =*", "*::test_reads", "*1x read (aten::_local_scalar_dense) at *"])
