"""A made-up training run whose views tests and the guide show: two ranks, a loss read in every step, and a metric that waits twice."""

from random import Random

from torchtally.stalls.stall import Gain, Report, Site, Stall
from torchtally.stalls.timeline import CallKind, Draft, Timeline, WorkKind

LOSS = Site("train.py", 61, "train_step", "running_loss += loss.item()")
UPDATE = Site("train.py", 64, "train_step", "mean_loss.update(loss)")
NAN_CHECK = Site("site-packages/torchmetrics/aggregation.py", 98, "_cast_and_nan_check_input", "if nans.any():")
MASK = Site("train.py", 52, "train_step", "logits = logits[valid]")
LAYERS = ("conv1", "layer1", "layer2", "layer3", "layer4", "head")
KERNELS = ("sm80_xmma_fprop_implicit_gemm_f16", "batch_norm_kernel", "vectorized_elementwise_kernel")
KEEP = "Add the tensor up and read the sum once per epoch; fetch() copies it without waiting."
NO_CHECK = 'nan_strategy="disable" skips the check; torchtally.MeanMetric counts NaN on the device.'
NOT_MASKED = "torch.where(valid, logits, 0) has a fixed shape; carry the mask as a weight."


class Run:
    """One rank as it goes: the host launches, the device follows, and a wait holds the host until the device is done."""

    def __init__(self, rank: int, seed: int) -> None:
        self.draft = Draft(f"rank{rank}.json", rank)
        self.draft.devices = ("NVIDIA A40",)
        self.draft.origin_ns = 1_700_000_000_000_000_000 + rank * 40_000
        self.main = self.draft.lane("thread 4021 (main)", process=1)
        self.stream = self.draft.lane("stream 7", device=0, stream=7)
        self.random = Random(seed)
        self.rank, self.host, self.device, self.link = rank, 0.0, 0.0, 0
        self.stalls: list[Stall] = []

    def pause(self, us: float) -> float:
        self.host += us * self.random.uniform(0.8, 1.2)
        return self.host

    def launch(self, operator: str, kernel: str, us: float) -> None:
        start = self.pause(6)
        self.pause(8)
        call = self.host
        self.link += 1
        self.pause(5)
        self.draft.call("cudaLaunchKernel", self.main, call, self.host, CallKind.LAUNCH, link=self.link)
        self.draft.operator(operator, self.main, start, self.pause(4))
        begin = max(self.device + 1.5, self.host + 3)
        self.device = begin + us * self.random.uniform(0.7, 1.3)
        self.draft.work(kernel, self.stream, begin, self.device, WorkKind.KERNEL, link=self.link)

    def wait(self, stall: Stall, operator: str) -> None:
        start = self.pause(5)
        self.link += 1
        copied = max(self.device + 2, self.host + 6)
        self.draft.work("Memcpy DtoH (Device -> Pinned)", self.stream, copied, copied + 2, WorkKind.DEVICE_TO_PINNED, link=self.link)
        self.device = copied + 2
        call, self.host = self.host + 4, self.device + 4
        self.draft.call("cudaStreamSynchronize", self.main, call, self.host, CallKind.STREAM_SYNC)
        self.draft.operator(operator, self.main, start, self.host + 1)
        self.pause(2)
        self.stalls.append(
            Stall(
                kind=stall.kind, operator=stall.operator, site=stall.site, inner=stall.inner, metric=stall.metric, region=stall.region,
                step=self.step, start_us=start, host_wait_us=self.host - start, device_idle_us=24.0, launch_lag_us=20.0, inferred=stall.inferred,
                remedy=stall.remedy, rank=self.rank, thread="thread 4021 (main)",
            )
        )  # fmt: skip

    def train_step(self, step: int) -> None:
        self.step = step
        begin = self.host
        for phase, weight in (("forward", 1.0), ("backward", 2.0)):
            opened = self.host
            for layer in LAYERS:
                inner = self.host
                for kernel in KERNELS:
                    self.launch(f"aten::{'conv2d' if kernel is KERNELS[0] else 'add_'}", kernel, 24 * weight)
                self.draft.region(f"{layer}", self.main, inner, self.pause(2))
            if phase == "forward" and step % 3 == 0:
                self.wait(Stall("shape_read", "aten::nonzero", MASK, MASK, region="## forward ##", remedy=NOT_MASKED), "aten::nonzero")
            self.draft.region(f"## {phase} ##", self.main, opened, self.pause(3))
        self.wait(Stall("read", "aten::_local_scalar_dense", LOSS, LOSS, remedy=KEEP), "aten::item")
        opened = self.host
        self.pause(40)
        for _ in range(2):
            self.launch("aten::isnan", KERNELS[2], 3)
            nan = Stall("read", "aten::is_nonzero", UPDATE, NAN_CHECK, "MeanMetric", "metric: MeanMetric.update", inferred=True, remedy=NO_CHECK)
            self.wait(nan, "aten::is_nonzero")
        self.draft.region("metric: MeanMetric.update", self.main, opened, self.pause(4))
        self.pause(60)
        self.draft.step(step, begin, self.host)
        self.draft.region(f"ProfilerStep#{step}", self.main, begin, self.host)


def example(ranks: int = 2, steps: int = 6) -> tuple[Report, list[Timeline]]:
    runs = [Run(rank, seed=rank + 1) for rank in range(ranks)]
    for run in runs:
        for step in range(steps):
            run.train_step(step)
    timelines = [run.draft.timeline() for run in runs]
    stalls = tuple(s for run in runs for s in run.stalls)
    duration = sum(s.end_us - s.start_us for t in timelines for s in t.steps)
    gains = (Gain("all stalls", len(stalls), 0.044 * duration), Gain("train.py:64, metric MeanMetric", 2 * steps * ranks, 0.026 * duration))
    return Report("stalls", "runs/mnist-ddp", ranks * steps, stalls, duration_us=duration, gains=gains), timelines
