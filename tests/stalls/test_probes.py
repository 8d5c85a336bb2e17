"""Probed functions do what they did, and a trace names each of their lines."""

import asyncio
import contextlib
import functools
import importlib.util
import inspect
import itertools
import sys
import textwrap
import threading
import traceback
import unittest
from pathlib import Path

import pytest
import torch
import torchmetrics
from torch.profiler import ProfilerActivity, profile
from torchmetrics.aggregation import BaseAggregator, MeanMetric

from torchtally.errors import TallyError
from torchtally.stalls.probes import probe_lines
from torchtally.stalls.regions import line_of


def regions(function, *args):
    """The line regions of one call, as (line, start, end) in order of start."""
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        function(*args)
    found = [(line_of(e.name), e.time_range.start, e.time_range.end) for e in recorded.events()]
    return sorted(((site, start, end) for site, start, end in found if site), key=lambda r: r[1])


def lines_of(function, *args):
    """The code of the lines one call ran, in order."""
    with probe_lines(function):
        return [site.code for site, _, _ in regions(function, *args)]


# --- what a trace shows


def mean_of(values):
    total = 0.0
    for value in values:
        if value > 1:
            total += value
    return total / len(values)


def test_each_line_has_a_region_as_often_as_it_runs():
    assert lines_of(mean_of, [1, 2, 3]) == [
        "total = 0.0",
        *["for value in values:", "if value > 1:"],
        *["for value in values:", "if value > 1:", "total += value"] * 2,
        "for value in values:",
        "return total / len(values)",
    ]


def test_regions_name_file_and_line_and_nest_in_time():
    with probe_lines(MeanMetric.update, BaseAggregator._cast_and_nan_check_input):
        found = regions(MeanMetric().update, torch.tensor([1.0, 2.0]))
    source = inspect.getsourcefile(MeanMetric)
    assert {site.file for site, _, _ in found} == {source}
    [(_, start, end)] = [r for r in found if r[0].code == "value, weight = self._cast_and_nan_check_input(value, weight)"]
    inside = [r for r in found if start < r[1] and r[2] < end]
    codes = [site.code for site, _, _ in inside]
    assert codes[0] == "if not isinstance(x, Tensor):"
    assert "if nans.any() or nans_weight.any():" in codes
    assert codes[-1] == "return x.to(self.dtype), weight.to(self.dtype)"
    body = inspect.getsourcelines(BaseAggregator._cast_and_nan_check_input)
    assert all(body[1] <= site.line < body[1] + len(body[0]) for site, _, _ in inside)
    written = Path(source).read_text().splitlines()
    assert all(written[site.line - 1].replace('"', "'").split() == site.code.split() for site, _, _ in found)


def test_the_operators_that_read_the_device_lie_in_the_region_of_their_line():
    with probe_lines(MeanMetric.update, BaseAggregator._cast_and_nan_check_input), profile(activities=[ProfilerActivity.CPU]) as recorded:
        MeanMetric().update(torch.tensor([1.0, 2.0]))
    lines = [(line_of(e.name), e.time_range) for e in recorded.events() if line_of(e.name)]
    reads = [e.time_range for e in recorded.events() if e.name == "aten::is_nonzero"]
    blamed = [max((r.start, site.code) for site, r in lines if r.start <= t.start and t.end <= r.end)[1] for t in reads]
    assert blamed == ["if nans.any() or nans_weight.any():"] * 2


def test_an_instance_made_before_is_probed_too_and_values_stay():
    metric, plain = MeanMetric(), MeanMetric()
    with probe_lines(metric.update) as probes:
        metric.update(torch.tensor([1.0, 3.0]), torch.tensor([3.0, 1.0]))
    plain.update(torch.tensor([1.0, 3.0]), torch.tensor([3.0, 1.0]))
    assert [f.__qualname__ for f in probes.functions] == ["MeanMetric.update"]
    assert metric.compute() == plain.compute() == 1.5


def test_every_metric_of_a_library_can_be_probed():
    classes = {c for c in vars(torchmetrics).values() if isinstance(c, type) and issubclass(c, torchmetrics.Metric) and "update" in vars(c)}
    assert len(classes) > 20
    with probe_lines(*(c.update for c in classes)) as probes:
        assert len(probes.sites) > 3 * len(classes)


def raising(x):
    if x.sum() > torch.tensor([1.0, 2.0]):
        return 1
    return 2


def test_a_region_ends_when_an_exception_passes():
    def call():
        with contextlib.suppress(RuntimeError):
            raising(torch.ones(3))
        later(torch.ones(3))

    with probe_lines(raising, later):
        first, second = regions(call)
    assert "torch.tensor([1.0, 2.0])" in first[0].code
    assert first[2] <= second[1]


def later(x):
    return x + 1


def test_time_in_which_a_generator_is_suspended_is_in_no_region():
    with probe_lines(suspended, later):
        found = regions(lambda: [later(x) for x in suspended()])
    spans = [(start, end) for _, start, end in found]
    assert len(found) == 6
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def suspended():
    x = torch.ones(3)
    yield x * 2
    y = x + 1
    yield y * 2


# --- behaviour


def closures():
    count, log = 0, []

    def bump(by, *, twice=False):
        nonlocal count
        count += by
        if twice:
            count += by
        log.append(count)
        return count

    with probe_lines(bump):
        bump(1)
        bump(2, twice=True)
    bump(10)
    return count, log


def test_closures_and_nonlocal_writes():
    assert closures() == (15, [1, 5, 15])


def test_nested_functions_are_probed_with_theirs():
    def outer(a):
        def inner(b):
            return a + b

        return [inner(i) for i in range(2)]

    assert lines_of(outer, 1).count("return a + b") == 2


class Base:
    def __init__(self, scale=1):
        self.scale = scale

    def value(self, x):
        return x * self.scale


class Child(Base):
    """A class with every kind of member."""

    __hidden = 5

    def __init__(self):
        super().__init__(2)

    def value(self, x, /, shift=1, *more, plain=True, **named):
        if plain:
            return super().value(x) + shift
        return __class__, self.__hidden, more, sorted(named)

    @property
    def double(self):
        return self.scale * 2

    @double.setter
    def double(self, value):
        self.scale = value // 2

    @functools.cached_property
    def cached(self):
        return self.scale + 100

    @staticmethod
    def fixed(x=3):
        return x

    @classmethod
    def name(cls):
        return cls.__name__

    @functools.lru_cache(None)  # noqa: B019
    def remembered(self):
        return object()


def use(kind):
    c = kind()
    first = (c.value(3), c.value(3, 4), c.value(3, 4, 5, plain=False, k=1), c.double, c.fixed(), c.fixed(8), c.name(), c.cached)
    c.double = 20
    return (*first, c.double, c.remembered() is c.remembered())


def test_a_class_with_all_its_members():
    before = use(Child)
    assert before == (7, 10, (Child, 5, (5,), ["k"]), 4, 3, 8, "Child", 102, 20, True)
    with probe_lines(Child) as probes:
        assert use(Child) == before
        names = {f.__name__ for f in probes.functions}
        assert lines_after(use, Child) > 10
    assert names == {"__init__", "value", "double", "cached", "fixed", "name", "remembered"}
    assert use(Child) == before


def lines_after(function, *args):
    return len(regions(function, *args))


def test_generators_with_send_throw_close_and_return():
    log = []

    def generator(n):
        total = 0
        try:
            while total < n:
                got = yield total
                total += 1 if got is None else got
        except ValueError as error:
            yield f"caught {error}"
        finally:
            log.append("closed")
        return total

    def run():
        log.clear()
        g = generator(5)
        steps = [next(g), next(g), g.send(2), g.throw(ValueError("x"))]
        with pytest.raises(StopIteration) as end:
            next(g)
        h = generator(9)
        next(h)
        h.close()
        return steps, end.value.value, list(generator(3)), list(log)

    expected = run()
    with probe_lines(generator):
        assert run() == expected == ([0, 1, 3, "caught x"], 3, [0, 1, 2], ["closed"] * 3)


def test_delegating_and_interleaved_generators():
    def chain(items):
        got = yield from items
        for item in items:
            yield (item, got)

    with probe_lines(chain):
        a, b = chain([1, 2]), chain([3, 4])
        assert [next(g) for g in (a, b, b, a, a, b, a, b)] == [1, 3, 4, 2, (1, None), (3, None), (2, None), (4, None)]


def test_coroutines():
    class Manager:
        async def __aenter__(self):
            await asyncio.sleep(0)
            return 5

        async def __aexit__(self, *error):
            return True

    async def numbers(n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def work(x):
        async with Manager() as five:
            total = five + await asyncio.sleep(0, x)
        async for i in numbers(3):
            total += i
        squares = [i * i async for i in numbers(3)]
        text = f"{await asyncio.sleep(0, total):>5}"
        if (await asyncio.sleep(0, True)) and total:
            return max(total, await asyncio.sleep(0, 1)), squares, text
        return None

    async def both():
        return await asyncio.gather(work(1), work(2))

    before = asyncio.run(both())
    with probe_lines(work, numbers):
        assert asyncio.run(both()) == before == [(9, [0, 1, 4], "    9"), (10, [0, 1, 4], "   10")]


def test_statements_of_every_kind():
    def every(value):
        "A docstring."
        import math

        global probed_global
        probed_global = out = []
        x: int = 3
        x += 1
        (a, *b), c = [1, 2, 3], x
        del a
        match value:
            case [first, second] if first < second:
                out.append("rising")
            case {"k": v}:
                out.append(v)
            case int() | float() as number:
                out.append(number)
            case _:
                out.append("other")
        while (x := x - 1) > 0:
            if x == 2:
                continue
            elif x == 1:
                break
        else:
            out.append("never")
        for i in range(3):
            if i == 5:
                break
        else:
            out.append("all")
        try:
            [][1]
        except IndexError:
            out.append("caught")
        else:
            out.append("not this")
        finally:
            out.append("finally")
        with contextlib.suppress(KeyError), contextlib.nullcontext(3) as three:
            {}[three]
        assert math.pi > 3, "message"
        pairs = {k: (y := v) for k, v in zip("ab", (4, 3))}
        function = lambda z=y: z + 1  # noqa: E731
        return out, b, c, pairs, function(), every.__doc__, sorted(n for n in locals() if n.isidentifier())

    before = [every(v) for v in ([1, 2], {"k": 7}, 2.5, "text")]
    assert [b[0][0] for b in before] == ["rising", 7, 2.5, "other"]
    with probe_lines(every):
        assert [every(v) for v in ([1, 2], {"k": 7}, 2.5, "text")] == before
    assert probed_global == before[-1][0]


class Truth:
    """Counts how often its truth is asked."""

    def __init__(self, value, asked):
        self.value, self.asked = value, asked

    def __bool__(self):
        self.asked.append(self.value)
        return self.value


def test_truth_is_asked_as_often_as_before():
    def asks(asked):
        yes, no = Truth(True, asked), Truth(False, asked)
        if no or (yes and not no):
            pass
        while no:
            pass
        return 1 if yes or no else 2

    plain, probed = [], []
    asks(plain)
    with probe_lines(asks):
        asks(probed)
    assert probed == plain == [False, True, False, False, True]


def test_tracebacks_show_the_same_frames_and_lines():
    def broken(how):
        items = iter([1])
        if (
            how == "test"
            and 1
            / len("")
        ):
            return 0
        if how == "loop":
            for item in exploding():
                items = item
        if how == "call":
            return exploding_call(
                1,
            )
        if how == "not iterable":
            for item in 5:
                items = item
        with contextlib.nullcontext():
            raise KeyError("inside") from ValueError("cause")
        return items

    def exploding():
        yield 1
        raise OSError("in the iterator")

    def exploding_call(x):
        return x.missing

    def seen(how):
        with pytest.raises(Exception) as caught:
            broken(how)
        frames = traceback.extract_tb(caught.tb)[1:]
        return [(f.filename, f.lineno, f.name, f.line) for f in frames], type(caught.value), str(caught.value), repr(caught.value.__cause__)

    cases = ("test", "loop", "call", "not iterable", "raise")
    before = [seen(how) for how in cases]
    assert [b[1] for b in before] == [ZeroDivisionError, OSError, AttributeError, TypeError, KeyError]
    with probe_lines(broken, exploding, exploding_call):
        assert [seen(how) for how in cases] == before


def test_recursion():
    def factorial(n):
        if n <= 1:
            return 1
        return n * factorial(n - 1)

    with probe_lines(factorial):
        assert factorial(20) == 2432902008176640000


def test_decorated_functions():
    def log(function):
        @functools.wraps(function)
        def wrapper(*args):
            return ("logged", function(*args))

        return wrapper

    @log
    @torch.no_grad()
    def decorated(x):
        return x + 1

    assert lines_of(decorated, 1) == ["return x + 1"]
    assert decorated(1) == ("logged", 2)


# --- ways of use


def test_undo_gives_the_very_code_back_and_may_be_repeated():
    code = mean_of.__code__
    probes = probe_lines(mean_of)
    assert mean_of.__code__ is not code
    probes.undo()
    probes.undo()
    assert mean_of.__code__ is code
    assert not hasattr(mean_of, "_torchdynamo_disable")
    with probes:
        assert mean_of.__code__ is not code
    assert mean_of.__code__ is code


def test_a_function_stays_probed_while_any_probe_wants_it():
    code = mean_of.__code__
    first, second = probe_lines(mean_of), probe_lines(mean_of)
    first.undo()
    assert mean_of.__code__ is not code
    second.undo()
    assert mean_of.__code__ is code


def test_as_decorators():
    @probe_lines()
    def for_good(x):
        return x + 1

    assert inspect.isfunction(for_good)
    assert [s.code for s, _, _ in regions(for_good, 1)] == ["return x + 1"]

    class Owner:
        @probe_lines
        def method(self, x):
            """Documented."""
            return (self, x)

        @probe_lines()
        @property
        def size(self):
            return 4

    owner = Owner()
    assert owner.method(3) == (owner, 3)
    assert owner.size == 4
    assert Owner.method.__doc__ == "Documented."

    @probe_lines
    def bare(x):
        return x * 2

    assert (bare(4), bare.__name__, len(bare.sites)) == (8, "bare", 1)
    bare.undo()
    assert bare(4) == 8


def test_partials_and_lambdas():
    double = lambda x: x * 2  # noqa: E731
    assert lines_of(functools.partial(double, 4)) == ["double = lambda x: x * 2 # noqa: E731"]


def test_threads_probe_run_and_undo_at_once():
    code, errors = mean_of.__code__, []

    def work():
        try:
            for _ in range(10):
                with probe_lines(mean_of):
                    assert mean_of([1, 2, 3]) == 5 / 3
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert mean_of.__code__ is code


@pytest.mark.slow
def test_a_compiled_function_runs_on_uncompiled():
    def compiled(x):
        return later(x).sum()

    with probe_lines(later):
        assert torch.compile(compiled, backend="eager")(torch.ones(3)) == 6
        assert torch.compile(later, backend="eager")(torch.ones(1)) == 2


# --- refusals


@pytest.mark.parametrize(
    "target, words",
    [
        (torch.add, "is not written in Python"),
        (len, "is not written in Python"),
        (3, "is no function but a int"),
        (torch.nn.Linear(2, 2), "is no function but a Linear"),
        (type("Empty", (), {}), "Empty defines no function with Python source"),
    ],
    ids=["operator", "builtin", "number", "module", "class"],
)
def test_what_cannot_be_probed_is_refused(target, words):
    with pytest.raises(TallyError, match=words):
        probe_lines(target)


def test_functions_without_source_are_refused_and_nothing_else_is_probed():
    space = {}
    exec("def made(x):\n    return x", space)
    code = mean_of.__code__
    with pytest.raises(TallyError, match=r"made comes from <string>, whose source cannot be read"):
        probe_lines(mean_of, space["made"])
    assert mean_of.__code__ is code


def load(path, text):
    path.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_file_that_has_changed_is_refused(tmp_path):
    path = tmp_path / "changing.py"
    module = load(path, "def f(x):\n    return x\n")
    path.write_text("# a new line\n\ndef f(x):\n    return x\n")
    with pytest.raises(TallyError, match="has no f at line 1 as it was imported"):
        probe_lines(module.f)
    path.write_text("def f(x:\n")
    with pytest.raises(TallyError, match="is not Python"):
        probe_lines(module.f)


def test_two_functions_on_a_line_are_refused(tmp_path):
    module = load(tmp_path / "twins.py", "f = [lambda x: x, lambda y: y]\n")
    with pytest.raises(TallyError, match="2 functions named <lambda>"):
        probe_lines(module.f[0])


def test_paths_and_code_with_odd_characters_survive_the_profiler(tmp_path):
    folder = tmp_path / 'an "odd" földer'
    folder.mkdir()
    module = load(folder / "odd.py", "def f(x):\n    return {'ä': \"q\\n\", 1: x}\n")
    with probe_lines(module.f):
        [(site, _, _)] = regions(module.f, 3)
    assert (site.file, site.line, site.code) == (str(folder / "odd.py"), 2, "return {'?': 'q/n', 1: x}")


@pytest.mark.parametrize("name", ["heapq", "textwrap", *(pytest.param(n, marks=pytest.mark.slow) for n in ("contextlib", "dataclasses", "fractions"))])
def test_the_standard_library_passes_its_own_tests_while_probed(name):
    pytest.importorskip("test.support")
    module = importlib.import_module(name)
    functions = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == name]
    classes = [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == name and any(map(inspect.isfunction, vars(c).values()))]
    suite = unittest.defaultTestLoader.loadTestsFromName(f"test.test_{name}")
    with contextlib.ExitStack() as probed, open("/dev/null", "w") as quiet:
        for target in (*functions, *classes):
            with contextlib.suppress(TallyError):
                probed.enter_context(probe_lines(target))
        result = unittest.TextTestRunner(stream=quiet).run(suite)
    assert result.testsRun > 20
    assert not result.failures + result.errors, sys.version
