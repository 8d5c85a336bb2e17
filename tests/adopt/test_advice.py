"""Advice names the cause, the line and the line to write: from scripts, from reports, from objects."""

import textwrap
from pathlib import Path

import pytest
import torch
import torchmetrics
from torch import nn

import torchtally
from torchtally.adopt import Deferred, advise, suppress_nan_check
from torchtally.adopt.rewriting import made_at, with_tensor, with_weight
from torchtally.errors import TallyError
from torchtally.stalls import Report, Site, Stall

OLD = torchmetrics.__version__ < "1.7"

SCRIPT = """
    import torch
    from torchmetrics import MeanMetric, Metric
    from torchmetrics.classification import MulticlassAccuracy


    class Seen(Metric):
        def __init__(self):
            super().__init__()
            self.add_state("n", torch.tensor(0.0), "sum")

        def update(self, preds):
            if preds.sum().item() > 0:
                self.n += 1

        def compute(self):
            return self.n


    model = torch.nn.Linear(4, 3).to("cuda")
    optimizer = torch.optim.SGD(model.parameters())
    metrics = {
        "loss": MeanMetric().to("cuda"),
        "accuracy": MulticlassAccuracy(3).to("cuda"),
    }
    seconds = MeanMetric().to("cuda")
    seen = Seen().to("cuda")
    quiet = torch.zeros((), device="cuda")
    for i in range(4):
        x = torch.randn(8, 4, device="cuda")
        y = torch.randint(3, (8,), device="cuda")
        optimizer.zero_grad()
        out = model(x)
        loss = torch.nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        metrics["loss"].update(loss.detach())
        metrics["accuracy"].update(out, y)
        seconds.update(0.25)
        seen.update(out)
        metrics["accuracy"].compute().item()
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("advice") / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def line_of(path, code):
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if line.strip() == code)


def test_a_script_is_told_each_line_to_change(script):
    found = {(a.metric, a.what): a for a in advise(script)}
    expected = {
        ("MeanMetric loss", "Turn off or defer the NaN check"): (
            '"loss": MeanMetric().to("cuda"),',
            '"loss": suppress_nan_check(MeanMetric)().to("cuda"),  # or torchtally.MeanMetric',
        ),
        ("MeanMetric seconds", "Turn off or defer the NaN check"): (
            'seconds = MeanMetric().to("cuda")',
            'seconds = suppress_nan_check(MeanMetric)().to("cuda")  # or torchtally.MeanMetric',
        ),
        ("MeanMetric seconds", "Turn scalars into tensors before updating a metric on the GPU"): (
            "seconds.update(0.25)",
            "value = torch.as_tensor(0.25); seconds.update(value, torch.ones_like(value))",
        ),
        ("MulticlassAccuracy accuracy", "Replace the metric, or defer its updates"): (
            '"accuracy": MulticlassAccuracy(3).to("cuda"),',
            '"accuracy": adopt(MulticlassAccuracy(3).to("cuda")),',
        ),
        ("Seen seen", "Do not read the device in update"): ("if preds.sum().item() > 0:", None),
        ("", "Read results less often"): ('metrics["accuracy"].compute().item()', ""),
    }
    if OLD:
        expected["MeanMetric loss", "Give weights as tensors"] = (
            'metrics["loss"].update(loss.detach())',
            "metrics['loss'].update(loss.detach(), torch.ones_like(loss.detach()))",
        )
    assert found.keys() == expected.keys()
    for key, (before, after) in expected.items():
        advice = found[key]
        assert advice.before == before
        assert advice.site.line == line_of(script, before)
        assert advice.after == after or (after is None and advice.after)
    per_step = {key: advice.per_step for key, advice in found.items()}
    assert per_step["MeanMetric loss", "Turn off or defer the NaN check"] == 2
    assert per_step["Seen seen", "Do not read the device in update"] == 1


def test_taking_the_advice_removes_the_waits(script, tmp_path):
    mended = script.read_text().replace("import torch\n", "import torch\nfrom torchtally.adopt import adopt, suppress_nan_check\n", 1)
    for advice in advise(script):
        if advice.what.startswith(("Turn", "Replace", "Give")):
            assert advice.before in mended
            mended = mended.replace(advice.before, advice.after)
    path = tmp_path / "mended.py"
    path.write_text(mended)
    left = {(a.metric, a.what) for a in advise(path)}
    assert left == {("Seen seen", "Do not read the device in update"), ("", "Read results less often")}


def stall(**given):
    site = Site("train.py", 3, code="loss.update(value)")
    return Stall(**{"kind": "read", "operator": "aten::_local_scalar_dense", "site": site, "metric": "MeanMetric loss", "step": 0, **given})


def report(*stalls):
    return Report(tool="stalls", source="trace.json", steps=1, stalls=stalls)


AGGREGATION = "site-packages/torchmetrics/aggregation.py"


def test_a_report_of_a_trace_whose_script_is_elsewhere():
    nan_check = stall(inner=Site(AGGREGATION, 93, "_cast_and_nan_check_input", "if nans.any() or nans_weight.any():"))
    weight = stall(kind="host_to_device", operator="cudaMemcpyAsync", inner=Site(AGGREGATION, 563, "update", "weight = torch.as_tensor(weight, dtype=self.dtype, device=self.device)"))
    first, second = advise(report(nan_check, nan_check, weight))
    assert (first.what, first.per_step, first.after) == ("Turn off or defer the NaN check", 2, "suppress_nan_check(MeanMetric)(…)  # or torchtally.MeanMetric")
    assert "Change the line that makes the metric" in first.why
    assert (second.what, second.site.line, second.after) == ("Give weights as tensors", 3, "loss.update(value, torch.ones_like(value))")
    assert str(second).splitlines()[0] == "train.py:3: MeanMetric loss: Give weights as tensors (1 wait a step)"


def test_a_metric_without_equivalent_is_to_be_deferred():
    [advice] = advise(report(stall(metric="InventedMetric m", inner=Site("site-packages/torchmetrics/invented.py", 9, "update", "x.nonzero()"))))
    assert (advice.what, advice.after) == ("Replace the metric, or defer its updates", "Deferred(InventedMetric(…), every=50)")


def test_waits_outside_of_metrics_and_reports_without_stalls_give_none():
    assert advise(report()) == []
    assert advise(report(stall(metric=None))) == []


# --- objects


class Own(torchmetrics.Metric):
    def __init__(self):
        super().__init__()
        self.add_state("n", torch.tensor(0.0), "sum")

    def update(self, preds, target):
        self.n += float(preds.mean())
        if torch.any(preds > 1):
            self.n += len(target)
        hits = preds.nonzero()
        self.n += hits.shape[0]

    def compute(self):
        return self.n.item()


def test_objects_are_found_wherever_they_are_and_told_by_name():
    model = nn.Module()
    model.loss = torchmetrics.MeanMetric()
    model.plain = {"best": torchmetrics.MaxMetric(), "none": 3}
    model.members = torchmetrics.MetricCollection({"sum": torchmetrics.SumMetric()})
    found = {(a.metric, a.what) for a in advise(model)}
    expected = {(m, "Turn off or defer the NaN check") for m in ("MeanMetric loss", "MaxMetric plain.best", "SumMetric members.sum")}
    assert found == expected | ({("MeanMetric loss", "Give weights as tensors")} if OLD else set())


def test_what_does_not_wait_gets_no_advice():
    assert advise([torchtally.MeanMetric(), torchmetrics.classification.BinaryAccuracy()]) == []
    quiet = suppress_nan_check(torchmetrics.SumMetric)()
    assert advise(quiet) == []
    assert advise(Deferred(quiet)) == []


@pytest.mark.skipif(OLD, reason="nan_strategy='disable' came later")
def test_dropped_weights_are_told():
    [advice] = advise(torchmetrics.MeanMetric(nan_strategy="disable"))
    assert "replaces the weights that are given by ones" in advice.why
    assert advise(torchmetrics.SumMetric(nan_strategy="disable")) == []


def test_a_collective_in_each_forward_is_told():
    [advice] = advise(torchmetrics.classification.BinaryAccuracy(dist_sync_on_step=True))
    assert (advice.what, advice.after) == ("Switch off synchronisation across devices where it is not needed", "dist_sync_on_step=False")


def test_a_cpu_metric_under_nccl_is_told_that_compute_will_fail(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda group=None: "nccl")
    metric = suppress_nan_check(torchmetrics.MeanMetric)()
    [advice] = advise({"seconds": metric})
    assert (advice.what, advice.after) == ("Choose the metric's device on purpose", "NoNanMeanMetric(sync_on_compute=False)")
    assert advise(suppress_nan_check(torchmetrics.MeanMetric)(sync_on_compute=False)) == []
    assert advise(torchtally.MeanMetric()) == []


def test_the_source_of_ones_own_update_is_read():
    found = advise({"own": Own(), "again": Own()})
    assert [(a.before, a.why) for a in found] == [
        ("self.n += float(preds.mean())", "float(…) waits where its tensor lies on a GPU."),
        ("if torch.any(preds > 1):", "Deciding by torch.any(preds > 1) waits where its tensor lies on a GPU."),
        ("hits = preds.nonzero()", ".nonzero() waits where its tensor lies on a GPU."),
    ]
    written = Path(__file__).read_text().splitlines()
    assert all(a.site.file == __file__ and written[a.site.line - 1].strip() == a.before for a in found)


# --- lines


@pytest.mark.parametrize(
    "code, expected",
    [
        ("loss.update(x)", "loss.update(x, torch.ones_like(x))"),
        ("self.m['loss'].update(x.mean(), 3)", "self.m['loss'].update(x.mean(), torch.full_like(x.mean(), 3))"),
        ("value = loss(x, weight=w)", "loss(x, torch.full_like(x, w))"),
        ("loss.update(", None),
        ("pass", None),
    ],
)
def test_weights_are_written_as_tensors(code, expected):
    assert with_weight(code) == expected


def test_numbers_are_written_as_tensors():
    assert with_tensor("t.update(time.time() - t0)") == "value = torch.as_tensor(time.time() - t0); t.update(value, torch.ones_like(value))"


@pytest.mark.parametrize(
    "text, maker",
    [
        ("loss = MeanMetric()", "MeanMetric"),
        ("self.loss: Metric = torchmetrics.MeanMetric(nan_strategy='ignore').to(d)", "torchmetrics.MeanMetric"),
        ("m['loss'] = MeanMetric()", "MeanMetric"),
        ("m = dict(a=MaxMetric(), loss=MeanMetric())", "MeanMetric"),
        ("loss = SumMetric()", None),
    ],
)
def test_the_line_that_makes_a_metric_is_found(tmp_path, text, maker):
    path = tmp_path / "made.py"
    path.write_text(f"import x\n\n{text}\n")
    made = made_at(str(path), "loss", "MeanMetric")
    assert (made.maker if made else None) == maker
    if made:
        assert (made.site.line, made.site.code) == (3, text)


@pytest.mark.parametrize("wrong", [3, {"a": 1}, nn.Linear(1, 1)], ids=["number", "dict", "module"])
def test_what_holds_no_metric_is_refused(wrong):
    with pytest.raises(TallyError, match="holds no metric, and is neither a script nor a Report"):
        advise(wrong)


def test_a_script_that_fails_at_once_is_told(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("raise KeyError('first line')\n")
    with pytest.raises(TallyError, match="failed before it showed anything") as caught:
        advise(path)
    assert caught.value.exit_code == 3
    with pytest.raises(TallyError, match="expected a Python script"):
        advise(tmp_path / "missing.py")
