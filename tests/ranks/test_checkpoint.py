"""Totals that outlive the process."""

import os
import random
import signal
import subprocess
import sys
import time

import orjson
import pytest
import torch
from torch import tensor

import torchtally as tt
from ranks.harness import Raised, run_ranks
from torchtally import checkpoint, commands
from torchtally import classification as c


class Own(tt.Metric):
    """A user's metric."""

    def __init__(self):
        super().__init__()
        self.add_state("total", torch.zeros(()), "sum")
        self.add_state("best", tensor(-torch.inf), "max")
        self.add_state("average", torch.zeros(()), "mean")
        self.add_state("seen", [], "cat")

    def update(self, x):
        self.total += x
        self.best = torch.maximum(self.best, tensor(x))
        self.average = tensor(x)
        self.seen.append(tensor([x]))

    def compute(self):
        return self.total


def tally():
    return tt.MetricCollection(
        {
            "precision": c.MulticlassPrecision(num_classes=3, average="none"),
            "recall": c.MulticlassRecall(num_classes=3),
            "loss": tt.MeanMetric().bind(value="loss"),
            "largest": tt.MaxMetric().bind(value="loss"),
            "all": tt.CatMetric().bind(value="loss"),
        }
    )


def feed(metrics, seeds):
    for seed in seeds:
        g = torch.Generator().manual_seed(seed)
        metrics.update(preds=torch.randint(0, 3, (6,), generator=g), target=torch.randint(0, 3, (6,), generator=g), loss=float(seed))
    return metrics


def plain(values):
    return {n: x.tolist() for n, x in values.items()}


def test_a_file_holds_all_and_is_read_without_trust(tmp_path):
    path = tmp_path / "tally.pt"
    tt.save(feed(tally(), [1, 2]), path)
    assert [p.name for p in tmp_path.iterdir()] == ["tally.pt"]
    assert torch.load(path, weights_only=True)["metrics"]["recall"]["updates"] == 2
    other = tally()
    other.load_state_dict(tt.load(path))
    want = plain(feed(tally(), [1, 2, 3]).compute())
    assert plain(feed(other, [3]).compute()) == want
    assert other.update_count == 3
    other = feed(tally(), [3])
    other.merge_state(path)
    got = plain(other.compute())
    assert sorted(got.pop("all")) == want.pop("all")
    assert got == want


def test_every_damaged_byte_is_noticed(tmp_path):
    path = tmp_path / "tally.pt"
    tt.save(feed(tally(), [1]), path)
    whole = path.read_bytes()
    expected = checkpoint.read(path)
    for length in range(0, len(whole), 501):
        path.write_bytes(whole[:length])
        with pytest.raises(tt.TallyError, match=r"tally\.pt"):
            tt.load(path)
    unharmed = 0
    for place in random.Random(0).sample(range(len(whole)), 60):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        try:
            found = checkpoint.read(path)
        except tt.TallyError:
            continue
        unharmed += 1  # padding between records, say: then what is read must be what was written
        assert checkpoint.checksum(found.state) == checkpoint.checksum(expected.state)
        assert checkpoint.checksum(found.metrics) == checkpoint.checksum(expected.metrics)
    assert unharmed < 60


def test_other_metrics_or_another_order_load_as_far_as_they_go(tmp_path):
    states = feed(tally(), [1, 2]).state_dict()
    members = dict(tally().items())
    turned = tt.MetricCollection({n: members[n].clone() for n in reversed(members)})
    turned.load_state_dict(states)
    assert plain(turned.compute()) == {n: x for n, x in plain(feed(tally(), [1, 2]).compute()).items()}
    more = tt.MetricCollection({**{n: m.clone() for n, m in members.items() if n != "all"}, "new": tt.SumMetric().bind(value="loss")})
    with pytest.raises(RuntimeError, match=r"(?s)new\.total.*all\.value|all\.value.*new\.total"):
        more.load_state_dict(states)
    said = more.load_state_dict(states, strict=False)
    assert "new.total" in said.missing_keys
    assert "all.value" in said.unexpected_keys
    assert float(more.compute()["loss"]) == 1.5


@pytest.fixture
def run(monkeypatch, capsys):
    """The command line, without another interpreter: exit code, what it printed, and what it said of errors."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["torchtally", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "200")
        code = 0
        try:
            commands.main()
        except SystemExit as end:
            code = end.code or 0
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "tests"]), "COLUMNS": "200"}


def test_files_are_merged_and_shown_on_the_command_line(tmp_path, run):
    for part, seeds in (("a", [1, 2]), ("b", [3])):
        tt.save(feed(tally(), seeds), tmp_path / f"{part}.pt")
    done = run("merge", tmp_path / "a.pt", tmp_path / "b.pt", "-o", tmp_path / "c.pt", "--json")
    assert done.returncode == 0, done.stderr
    want = feed(tally(), [1, 2, 3])
    rows = {row["name"]: row for row in orjson.loads(done.stdout)}
    assert rows["precision"]["value"] == pytest.approx(want["precision"].compute().tolist())
    assert rows["precision"]["options"] == {"num_classes": 3, "average": "none"}
    assert (rows["loss"]["value"], rows["largest"]["value"], rows["loss"]["updates"]) == (2.0, 3.0, 3)
    other = tally()
    other.load_state_dict(tt.load(tmp_path / "c.pt"))
    assert plain(other.compute()) == plain(want.compute())
    shown = run("show", tmp_path / "c.pt")
    assert shown.returncode == 0
    assert "MulticlassRecall(num_classes=3)" in shown.stdout
    (tmp_path / "a.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:900])
    torch.save(torch.nn.Linear(1, 1), tmp_path / "module.pt")
    for arguments, text in (
        (("show", tmp_path / "a.pt"), "damaged"),
        (("show", tmp_path / "none.pt"), "cannot be read"),
        (("merge", tmp_path / "b.pt", "-o", tmp_path / "d.pt"), "at least two"),
        (("merge", tmp_path / "b.pt", tmp_path / "b.pt", "-o", tmp_path / "d.pt"), "is given 2 times"),
        (("merge", tmp_path / "b.pt", tmp_path / "c.pt", "-o", tmp_path / "b.pt"), "is one of the files to add up"),
        (("merge", tmp_path / "b.pt", tmp_path / "c.pt", "-o", tmp_path), "cannot be written"),
        (("merge", tmp_path / "b.pt", tmp_path / "c.pt", "-o", tmp_path / "none" / "d.pt"), "cannot be written"),
        (("show", tmp_path / "module.pt"), "other things than tensors and plain values."),
    ):
        failed = run(*arguments)
        assert failed.returncode == 2
        assert text in failed.stderr
        assert len(failed.stderr.splitlines()) == 1


def test_compositions_take_states_and_files(tmp_path):
    def share():
        return tt.SumMetric() / (tt.SumMetric() + 1.0)

    first, second, whole = share(), share(), share()
    first.update(1.0)
    second.update(2.0)
    tt.save(second, tmp_path / "second.pt")
    for part in (first, first.state_dict(), tmp_path / "second.pt"):
        whole.merge_state(part)
    assert float(whole.compute()) == pytest.approx(4 / 5)
    with pytest.raises(ValueError, match="composition of the same metrics"):
        whole.merge_state(tt.SumMetric())


def test_users_metrics_merge_and_different_ones_do_not(tmp_path):
    def saved(name, metric, values):
        for x in values:
            metric.update(x)
        tt.save(metric, tmp_path / name)
        return tmp_path / name

    content = checkpoint.merge([saved("a.pt", Own(), [1.0, 5.0]), saved("b.pt", Own(), [3.0])])
    state = content["state"]
    assert (float(state["total"]), float(state["best"]), torch.cat(state["seen"]).tolist()) == (9.0, 5.0, [1.0, 5.0, 3.0])
    assert float(state["average"]) == pytest.approx((2 * 5.0 + 3.0) / 3)
    assert content["metrics"][""]["updates"] == 3
    with pytest.raises(tt.TallyError, match="different metrics"):
        checkpoint.merge([tmp_path / "a.pt", saved("c.pt", tt.SumMetric(), [1.0])])
    torch.save(Own().state_dict(), tmp_path / "plain.pt")
    with pytest.raises(tt.TallyError, match="merge_state"):
        checkpoint.merge([tmp_path / "a.pt", tmp_path / "plain.pt"])


def test_members_that_a_file_does_not_know_keep_what_they_have():
    saved = feed(tally(), [1, 2]).state_dict()
    part = {k: x for k, x in saved.items() if k.startswith(("precision.", "loss."))}
    metrics = feed(tally(), [3])
    want = plain(metrics.compute())
    said = metrics.load_state_dict(part, strict=False)
    assert {k.partition(".")[0] for k in said.missing_keys} == {"recall", "largest", "all"}
    got, whole = plain(metrics.compute()), plain(feed(tally(), [1, 2]).compute())
    assert got == {**want, "precision": whole["precision"], "loss": whole["loss"]}
    assert [metrics[n].update_count for n in ("precision", "recall", "loss", "largest")] == [2, 1, 2, 1]
    feed(metrics, [4])
    assert plain(metrics.compute())["recall"] == plain(feed(tally(), [3, 4]).compute())["recall"]
    assert plain(metrics.compute())["precision"] == plain(feed(tally(), [1, 2, 4]).compute())["precision"]


def test_means_of_users_metrics_keep_their_weight(tmp_path):
    def fed(values):
        metric = Own()
        for x in values:
            metric.update(x)
        return metric

    first = fed([1.0, 2.0, 3.0])  # its average is 3, over three updates
    tt.save(first, tmp_path / "a.pt")
    torch.save(first.state_dict(), tmp_path / "b.pt")
    for states in (first.state_dict(), tt.load(tmp_path / "a.pt"), torch.load(tmp_path / "b.pt", weights_only=True)):
        again = Own()
        again.load_state_dict(states)
        assert again.update_count == 3
        again.merge_state(fed([11.0]))
        assert float(again.average) == 5.0
        other = fed([11.0])
        other.merge_state(states)
        assert float(other.average) == 5.0


def test_a_jobs_totals_go_on_in_jobs_of_other_sizes(tmp_path):
    path = tmp_path / "job.pt"

    def job(seeds, resume):
        def work(rank):
            metrics = tally()
            if resume:
                metrics.load_state_dict(tt.load(path), spread=True)
            feed(metrics, seeds[rank])
            tt.save(metrics, path, reduce=True)
            return metrics.compute(), metrics.update_count

        return work

    first = run_ranks(job([[1], [2]], False), 2)
    second = run_ranks(job([[3], [], [4, 5]], True), 3)
    last = run_ranks(job([[6]], True), 1)
    for found, seeds in ((first, [1, 2]), (second, [1, 2, 3, 4, 5]), (last, [1, 2, 3, 4, 5, 6])):
        want = plain(feed(tally(), seeds).compute())
        want["all"].sort()
        for rank in found:
            assert not isinstance(rank, Raised | str), rank
            values = rank[0]
            values["all"].sort()
            assert values == {n: pytest.approx(x) for n, x in want.items()}
    assert checkpoint.read(path).metrics["loss"]["updates"] == 6
    other = tally()
    other.load_state_dict(tt.load(path))
    assert other.update_count == 6


SAVER = """
import sys, torch, torchtally as tt
torch.set_num_threads(1)
metrics = tt.MetricCollection({"total": tt.SumMetric(), "all": tt.CatMetric()})
for step in range(1, 100000):
    metrics.update(1.0)
    tt.save(metrics, sys.argv[1])
    if step == 1:
        print("ready", flush=True)
"""


def killed_while_saving(path, delay):
    process = subprocess.Popen([sys.executable, "-c", SAVER, str(path)], stdout=subprocess.PIPE, env=environment())
    assert process.stdout.readline() == b"ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    state = tt.load(path)
    steps = int(state["total.total"])
    assert steps >= 1
    assert len(state["all.value"]) == steps
    assert int(state["total.updates"]) == steps


def test_a_process_killed_while_saving_leaves_a_whole_file(tmp_path):
    killed_while_saving(tmp_path / "tally.pt", 0.05)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_processes_killed_while_saving_leave_whole_files(tmp_path):
    generator = random.Random(0)
    for _ in range(100):
        killed_while_saving(tmp_path / "tally.pt", generator.uniform(0, 0.1))
