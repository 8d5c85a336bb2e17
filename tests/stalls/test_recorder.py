"""Whom a wait is blamed on, and in which step it happened."""

import inspect
import threading
from pathlib import Path

import pytest
import torch
from fake_source import READ, FakeSource, wait_before
from torch.utils.data import DataLoader

from torchtally.stalls.blame import REGIONS
from torchtally.stalls.ownership import Owner, Ownership
from torchtally.stalls.recorder import Recorder
from torchtally.stalls.watching import EnoughSteps

HERE = __file__


def line_of(text):
    """The number of the one line of this file that holds the text."""
    found = [n for n, line in enumerate(Path(HERE).read_text().splitlines(), 1) if line.endswith(text)]
    assert len(found) == 1, (text, found)
    return found[0]


def test_the_users_own_line_is_blamed_with_its_text():
    recorder = Recorder()
    with FakeSource(recorder):
        torch.ones(()).item()  # plain read
    (stall,) = recorder.stalls
    assert (stall.site.file, stall.site.line) == (HERE, line_of("# plain read"))
    assert stall.site.code == "torch.ones(()).item()  # plain read"
    assert stall.site.function == "test_the_users_own_line_is_blamed_with_its_text"
    assert stall.inner == stall.site
    assert (stall.kind, stall.operator, stall.remedy, stall.metric, stall.region, stall.step) == (
        "read", "aten::_local_scalar_dense", READ.remedy, None, None, None)  # fmt: skip


def test_a_wait_inside_torch_names_the_line_that_decided_to_wait():
    recorder = Recorder()
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    with FakeSource(recorder):
        torch.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)  # clips
    (stall,) = recorder.stalls
    assert stall.site.line == line_of("# clips")
    assert stall.inner.file.endswith("torch/nn/utils/clip_grad.py")
    assert "isnan" in stall.inner.code


def test_what_counts_as_ones_own_can_be_chosen():
    assert Ownership()(HERE) is Owner.USER
    assert Ownership(libraries=[HERE])(HERE) is Owner.LIBRARY
    assert Ownership()(torch.__file__) is Owner.PLUMBING
    assert Ownership()(inspect.getfile(threading)) is Owner.PLUMBING
    assert Ownership(own=["torch"])(torch.__file__) is Owner.USER
    assert Ownership()("<string>") is Owner.PLUMBING


def test_a_library_of_the_user_is_blamed_only_if_asked():
    def waits(recorder):
        with FakeSource(recorder):
            torch.ones(()).item()
        return recorder.stalls[0]

    assert waits(Recorder()).site is not None
    nobody = waits(Recorder(libraries=[HERE]))
    assert nobody.site == nobody.inner
    assert nobody.inner.file != "<string>"


def test_the_innermost_region_is_named_and_gone_afterwards():
    recorder = Recorder()
    original = torch.autograd.profiler.record_function.__enter__
    with FakeSource(recorder):
        with torch.profiler.record_function("outer"), torch.profiler.record_function("inner"):
            torch.ones(()).item()
            with torch.profiler.record_function("metric: loss.update"):  # a probe of ours: blamed by itself
                torch.ones(()).item()
        torch.ones(()).item()
    assert [s.region for s in recorder.stalls] == ["inner", "inner", None]
    assert torch.autograd.profiler.record_function.__enter__ is original
    assert REGIONS.innermost() is None


def test_a_wait_in_backward_is_blamed_on_the_forward_line():
    recorder = Recorder()
    weight = torch.ones(3, requires_grad=True)
    mask = torch.tensor([True, False, True])
    with FakeSource(recorder):
        picked = weight[mask]  # masked in forward
        _ = float(picked.detach().sum())  # a read in between
        picked.sum().backward()
    forward, read, backward = recorder.stalls
    assert forward.site.line == backward.site.line == line_of("# masked in forward")
    assert read.site.line == line_of("# a read in between")
    assert (forward.region, backward.region) == (None, "backward: IndexBackward0")
    assert not backward.inferred


def test_an_operator_that_waits_in_backward_only_can_be_remembered():
    recorder = Recorder()
    weight = torch.ones(3, requires_grad=True)
    with FakeSource(recorder):
        product = weight.prod()  # multiplied
        wait_before(product.grad_fn, recorder)
        product.backward()
    (stall,) = recorder.stalls
    assert (stall.site.line, stall.region) == (line_of("# multiplied"), "backward: ProdBackward0")
    assert not stall.inferred


def test_without_a_forward_line_backward_is_blamed_and_said_to_be_inferred():
    recorder = Recorder()
    loss = torch.ones((), requires_grad=True).sigmoid()
    with FakeSource(recorder):
        loss.backward()  # goes back
    (stall,) = recorder.stalls
    assert (stall.site.line, stall.inferred) == (line_of("# goes back"), True)
    assert (stall.operator, stall.region) == ("aten::sigmoid_backward", "backward: SigmoidBackward0")


def test_a_hook_that_waits_in_backward_is_the_users_own_line():
    recorder = Recorder()
    weight = torch.ones(3, requires_grad=True)
    weight.register_hook(lambda gradient: gradient * gradient.sum().item())  # hooked
    with FakeSource(recorder):
        weight.sum().backward()
    (stall,) = recorder.stalls
    assert (stall.site.line, stall.inferred) == (line_of("# hooked"), False)


def test_a_thread_of_the_engine_is_blamed_on_the_line_that_called_backward():
    """Real devices run backward on threads of the engine; a thread that waits while this one is inside `backward` stands for it."""
    recorder = Recorder()

    class Hold(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            thread = threading.Thread(target=recorder, args=(READ, "aten::item"), name="engine")
            for step in (thread.start, thread.join):
                step()  # this thread's innermost line, started or joined
            return gradient

    with recorder:
        Hold.apply(torch.ones((), requires_grad=True)).backward()  # calls the engine
    (stall,) = recorder.stalls
    assert stall.site.line == line_of("# this thread's innermost line, started or joined")
    assert (stall.thread, stall.inferred) == ("engine", True)


def test_pausing_leaves_out_and_notes_are_said_once():
    recorder = Recorder()
    with FakeSource(recorder):
        with recorder.paused():
            torch.ones(()).item()
        torch.ones(()).item()
    recorder.note("a")
    recorder.note("a")
    assert len(recorder.stalls) == 1
    assert recorder.report("x.py").notes == ("a",)
    assert recorder.device_work


def waits_by_step(recorder):
    """Step → the marks (`# here: NAME`) of the lines that waited in it."""
    found = {}
    for s in recorder.stalls:
        found.setdefault(s.step, []).append(s.site.code.rpartition("here: ")[2])
    return found


def model_and_optimiser():
    model = torch.nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_step_is_one_turn_of_the_loop_around_the_optimiser():
    recorder = Recorder()
    model, optimiser = model_and_optimiser()
    with FakeSource(recorder):
        torch.ones(()).item()  # here: set-up
        for _ in range(3):
            torch.ones(()).item()  # here: before
            model(torch.ones(1, 2)).sum().backward()
            optimiser.step()
            torch.ones(()).item()  # here: after
        torch.ones(()).item()  # here: evaluation
    assert recorder.steps == 3
    assert waits_by_step(recorder) == {None: ["set-up", "evaluation"], 0: ["before", "after"], 1: ["before", "after"], 2: ["before", "after"]}


def train_one(model, optimiser):
    torch.ones(()).item()  # here: called
    model(torch.ones(1, 2)).sum().backward()
    for o in [optimiser]:
        o.step()
    torch.ones(()).item()  # here: called after


def test_a_loop_in_a_function_that_the_training_loop_calls_is_not_the_training_loop():
    recorder = Recorder()
    model, optimiser = model_and_optimiser()
    with FakeSource(recorder):
        torch.ones(()).item()  # here: earlier
        step = 0
        while True:
            step += 1
            train_one(model, optimiser)
            with torch.enable_grad():
                torch.ones(()).item()  # here: outside
            if step == 4:
                break
    found = waits_by_step(recorder)
    assert recorder.steps == 4
    assert found[None] == ["earlier"]
    # until the second step the inner loop is taken for the training loop, so the first cut may lie early
    assert found[1][-3:] == found[2] == found[3] == ["called", "called after", "outside"]
    assert sum(map(len, found.values())) == 1 + 4 * 3


def test_two_optimisers_of_one_turn_are_one_step_and_accumulated_batches_belong_together():
    recorder = Recorder()
    (one, first), (two, second) = model_and_optimiser(), model_and_optimiser()
    with FakeSource(recorder):
        for batch in DataLoader(torch.ones(8, 2), batch_size=1):
            one(batch).sum().backward()
            two(batch).sum().backward()
            torch.ones(()).item()  # here: every batch
            if (int(batch.sum().detach().numpy()) and recorder._watch._batches) % 2 == 0:
                first.step()
                second.step()
                torch.ones(()).item()  # here: every step
    assert recorder.steps == 4
    assert waits_by_step(recorder) == {k: ["every batch", "every batch", "every step"] for k in range(4)}


def test_a_program_that_only_evaluates_counts_batches():
    recorder = Recorder()
    with FakeSource(recorder), torch.no_grad():
        torch.ones(()).item()  # here: loading
        for batch in DataLoader(torch.ones(3, 2), batch_size=1):
            batch.sum().item()  # here: batch
        torch.ones(()).item()  # here: printing
    assert recorder.steps == 3
    assert waits_by_step(recorder) == {None: ["loading", "printing"], 0: ["batch"], 1: ["batch"], 2: ["batch"]}


def test_steps_marked_by_hand_are_believed():
    recorder = Recorder()
    _model, optimiser = model_and_optimiser()
    with FakeSource(recorder):
        for _ in range(2):
            optimiser.step()
            optimiser.step()
            torch.ones(()).item()  # here: marked
            recorder.step()
        torch.ones(()).item()  # here: unmarked
    assert recorder.steps == 2
    assert waits_by_step(recorder) == {0: ["marked"], 1: ["marked"], None: ["unmarked"]}


def test_without_steps_there_are_none():
    recorder = Recorder()
    with FakeSource(recorder):
        torch.ones(()).item()
    assert recorder.steps is None
    assert [s.step for s in recorder.stalls] == [None]


@pytest.mark.parametrize("limit", [1, 3])
def test_the_program_ends_where_the_loop_turns_after_enough_steps(limit):
    made = []
    recorder = Recorder(limit=limit, on_step=made.append)
    _model, optimiser = model_and_optimiser()
    with pytest.raises(EnoughSteps), FakeSource(recorder):
        for _ in range(10):
            torch.ones(()).item()  # here: lead
            optimiser.step()
            torch.ones(()).item()  # here: trail
    assert recorder.steps == limit == made[-1]
    assert waits_by_step(recorder) == {k: ["lead", "trail"] for k in range(limit)}


def test_a_program_that_only_evaluates_ends_after_enough_batches():
    _of_an_earlier_program = model_and_optimiser()
    recorder = Recorder(limit=2)
    with pytest.raises(EnoughSteps), FakeSource(recorder), torch.no_grad():
        try:
            for batch in DataLoader(torch.ones(9, 2), batch_size=1):
                batch.sum().item()  # here: evaluated
        finally:
            torch.ones(()).item()  # here: way out
    assert waits_by_step(recorder) == {0: ["evaluated"], 1: ["evaluated"], None: ["way out"]}


def test_what_a_program_does_on_its_way_out_is_in_no_step():
    recorder = Recorder(limit=2)
    _model, optimiser = model_and_optimiser()

    def train(loader):
        for _ in loader:
            torch.ones(()).item()  # here: trained
            optimiser.step()

    loader = DataLoader(torch.ones(9, 2), batch_size=1)
    with pytest.raises(EnoughSteps), FakeSource(recorder):
        recorder._ownership._known[HERE] = Owner.LIBRARY  # a loop that is not the user's is not traced: the loader ends it
        try:
            train(loader)
        finally:
            recorder._ownership._known[HERE] = Owner.USER
            torch.ones(()).item()  # here: left
    assert waits_by_step(recorder) == {0: ["trained"], 1: ["trained"], None: ["left"]}


def test_computing_statistics_of_the_data_before_training_does_not_end_the_program():
    recorder = Recorder(limit=2)
    with pytest.raises(EnoughSteps), FakeSource(recorder), torch.no_grad():
        _model, optimiser = model_and_optimiser()
        for batch in DataLoader(torch.ones(9, 2), batch_size=1):
            batch.sum().item()  # here: statistics
        for batch in DataLoader(torch.ones(9, 2), batch_size=1):
            optimiser.step()
            batch.sum().item()  # here: training
    assert waits_by_step(recorder) == {None: ["statistics"] * 9, 0: ["training"], 1: ["training"]}


def test_nothing_is_left_behind():
    import sys

    from torch.utils.data.dataloader import _BaseDataLoaderIter

    before = _BaseDataLoaderIter.__next__
    recorder = Recorder()
    _model, optimiser = model_and_optimiser()
    with recorder, recorder:
        for _ in range(2):
            optimiser.step()
    assert _BaseDataLoaderIter.__next__ is before
    assert sys.gettrace() is None
    steps = recorder.steps
    optimiser.step()
    assert recorder.steps == steps
