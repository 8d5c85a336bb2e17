"""The catalogue as a page of the documentation: `python -m torchtally.stalls.catalogue.page > docs/what-waits.md`."""

from __future__ import annotations

from types import ModuleType

from . import copying, linear_algebra, reading, shapes, waiting
from .row import Row

PARTS: tuple[tuple[str, str, ModuleType], ...] = (
    ("Reading values", "The host asks for a value of the device, or a kernel asks in order to check its input.", reading),
    ("Copies", "Between host and device, with all that is queued before them.", copying),
    ("Shapes that depend on values", "The host must know how many results there are before it can allocate them.", shapes),
    ("Decompositions", "Their status is checked on the host.", linear_algebra),
    ("Explicit waits, the allocator, printing", "", waiting),
)

SUSPECTED: tuple[tuple[str, str], ...] = (
    ("x[m] = 0.0", "one mask and one number: rewritten to `masked_fill_`"),
    ("x[0] = 1.0", "a fill"),
    ("x.fill_(c0)", "a host tensor of one number is passed to the kernel"),
    ("x + c0", "likewise: elementwise operators take a 0-dimensional host tensor as a number"),
    ("x.masked_fill(m, 0.0)", "the number is passed to the kernel"),
    ("torch.where(m, x, 0.0)", "the number becomes a device tensor by a kernel"),
    ("m.any(), m.all()", "the answer stays on the device until it is asked for"),
    ("torch.sort(x), torch.topk(x, 2), torch.argsort(x)", ""),
    ("torch.multinomial(p, 2)", "asserted on the device since torch 2.6 at the latest"),
    ("torch.randperm(10, device='cuda')", ""),
    ("torch.quantile(x, 0.5), torch.median(x)", ""),
    ("torch.full((), 2.0, device='cuda')", "unlike `torch.tensor(2.0, device='cuda')`"),
    ("F.one_hot(i, 4)", "with the number of classes"),
    ("torch.histc(x, bins=4, min=-3, max=3)", "with a range"),
    ("x.repeat_interleave(i, dim=0, output_size=6)", "with the size"),
    ("pinned.to('cuda', non_blocking=True)", "from pinned memory"),
    ("x.to('cpu', non_blocking=True)", "the result is pinned; read it only after an event"),
    ("F.cross_entropy(x, i)", "labels are checked on the device"),
    ("nn.utils.clip_grad_norm_(w, 1.0)", "unless `error_if_nonfinite=True`"),
)
"""What is often suspected and does not wait, in terms of the names below."""

HEAD = """\
# What makes the host wait

A GPU works through a queue while Python runs ahead and fills it. Whatever makes Python wait for the device lets the queue run dry. This is the list of all that does,
as torchtally knows it; `torchtally check` and `torchtally.stalls` find these in your own script, with the line and the remedy.
The page is made from the catalogue in `torchtally.stalls.catalogue`; do not edit it by hand.

- `1+` beside the kind: the call waits more than once, depending on sizes, values or the library behind it. Rows that name no version hold for torch 2.6 and later.
- `aten::…` is the operator that a profiler shows. Names without a prefix are Python functions; `autograd::…` are backward functions.
"""


SLOW = """\
## Slow, but no wait

These cost host time without waiting for queued work, and torchtally does not report them: `cudaMalloc` when the allocator grows (new shapes: warm up, or `expandable_segments`),
`cudaHostAlloc` in `pin_memory()` (reuse pinned buffers), the first collective of a process group, and cuDNN's and Triton's search for the best kernel at the first call of a shape.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def versions(row: Row) -> str:
    if row.until is None:
        return "" if row.since == "2.6" else f"from {row.since}"
    return f"before {row.until}"


def merged(rows: tuple[Row, ...]) -> list[tuple[str, Row]]:
    """Rows that differ by operator alone share one line."""
    found: dict[tuple[object, ...], tuple[list[str], Row]] = {}
    for row in rows:
        key = (row.kind, row.when, row.why, row.remedy, row.since, row.until)
        name = f"`{row.operator}`" + (f" ({', '.join(row.overloads)})" if row.overloads else "")
        names, _ = found.setdefault(key, ([], row))
        if name not in names:
            names.append(name)
    return [("<br>".join(names), row) for names, row in found.values()]


def markdown() -> str:
    """The whole page."""
    lines = [HEAD]
    for title, text, part in PARTS:
        lines += [f"## {title}", text, *([""] if text else []), "| operator | waits when | kind | why | instead | torch |", "|---|---|---|---|---|---|"]
        for name, row in merged(part.ROWS):
            kind = row.kind.replace("_", " ")
            lines.append(f"| {name} | {cell(row.when)} | {kind}{'' if row.exact else ', 1+'} | {cell(row.why)} | {cell(row.remedy)} | {versions(row)} |")
        lines.append("")
    lines += ["## Suspected, but does not wait", "", "| code | note |", "|---|---|"]
    lines += [f"| `{code}` | {note} |" for code, note in SUSPECTED]
    lines += ["", "`x` and `y` are on the device, `m` is a mask, `i` integer indices, `p` probabilities, `w` a parameter, `c0` a 0-dimensional host tensor, `pinned` a host tensor in pinned memory."]
    lines += ["", SLOW.rstrip()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
