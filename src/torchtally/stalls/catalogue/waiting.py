"""Explicit waits, the allocator, collectives that wait, and printing."""

from __future__ import annotations

from .row import Call, Row, always, once


def nccl(call: Call) -> int:
    return int(call.kwargs.get("backend") == "nccl")


EVENTS = "an event and `event.query()`, or remove it: results are ready when they are read"
PRINT = "print a value read on purpose (`x.item()` every N steps), or hand the device tensor to a logger that copies asynchronously"

ROWS = (
    Row("torch.cuda.synchronize", "synchronize", always, "Waits for all work of the device.", "CUDA events to measure time; otherwise remove it",
        when="always"),
    Row("torch.accelerator.synchronize", "synchronize", always, "Waits for all work of the device.", "events to measure time; otherwise remove it",
        when="always"),
    *(
        Row(f"{front}.Stream.synchronize", "synchronize", always, "Waits for all work of the stream.", "`other.wait_stream(stream)`: the device waits, not the host",
            when="always")
        for front in ("torch.cuda", "torch")
    ),
    *(
        Row(f"{front}.Event.synchronize", "synchronize", always, "Waits for the event.", EVENTS, when="always") for front in ("torch.cuda", "torch")
    ),
    Row("torch.cuda.graph.__enter__", "synchronize", always, "A capture starts by waiting for the device and emptying the cache.", "capture once, replay often",
        when="always", exact=False),
    Row("torch.cuda.empty_cache", "allocator", always, "Freeing device memory waits for the device.", "do not call it in the loop",
        when="always; as often as there are unused blocks", exact=False),
    Row("torch.distributed.barrier", "synchronize", nccl, "The host waits until all ranks have come.", "remove it: a collective already orders the ranks",
        when="NCCL process groups"),
    Row("Tensor.__repr__", "print", once, "Printing finds its format by reading the tensor many times.", PRINT,
        when="`print(x)`, `repr(x)`, `str(x)`, a tensor in an f-string or a log line", exact=False),
    Row("Tensor.__format__", "print", once, "Formatting reads the value.", PRINT, when="`f'{x:.3f}'`, `tqdm.set_postfix(loss=x)`"),
)
