"""What somebody is told whose batch was refused: the metric, what came, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

NUMBERS = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
"""The dtypes that torch adds, compares and sorts on every device."""


def check_plain(name: str, x: Tensor) -> None:
    """Raise unless a tensor is dense and of a dtype that is computed with."""
    if x.dtype not in NUMBERS or x.layout is not torch.strided:
        oddity = of_tensor(name, x)
        if oddity is not None:
            raise TypeError(oddity)


def of_tensor(name: str, x: Tensor) -> str | None:
    """What is unusual about a tensor, so that metrics cannot take it."""
    if x.is_nested:
        return f"{name} is a nested tensor; expected a plain one. Join its parts with torch.cat({name}.unbind())."
    if x.is_quantized:
        return f"{name} is quantized ({x.dtype}); expected a plain tensor. Pass {name}.dequantize()."
    if x.layout is not torch.strided:
        return f"{name} has layout {x.layout}; expected a dense tensor. Pass {name}.to_dense()."
    if x.is_complex() or x.dtype in NUMBERS:
        return None
    cast = "float" if x.is_floating_point() else "long"
    return f"{name} has dtype {x.dtype}, which torch does not compute with; pass {name}.{cast}()."


def integers(name: str, x: Tensor) -> Tensor:
    """Labels, checked."""
    if x.is_floating_point() or x.is_complex():
        raise ValueError(f"{name} has dtype {x.dtype}; expected integer or boolean labels. Convert it with .long().")
    if x.is_quantized:
        raise TypeError(of_tensor(name, x))
    return x


def check_labels(preds: Tensor, target: Tensor) -> None:
    """Raise unless targets are labels."""
    if target.is_floating_point() and not preds.is_floating_point():
        raise ValueError(
            f"target has dtype {target.dtype} and preds {preds.dtype}; expected integer or boolean labels in target. "
            "Convert it with .long(), or, if the two were given in the other order, pass predictions first."
        )
    integers("target", target)


def unequal(preds: Tensor, target: Tensor) -> ValueError:
    """Says what to do where yes/no metrics are given different shapes."""
    said = f"preds has shape {tuple(preds.shape)} but target has {tuple(target.shape)}; expected equal shapes."
    if preds.numel() == target.numel():
        return ValueError(f"{said} Squeeze or flatten one of them.")
    if preds.ndim == target.ndim + 1 and preds.shape[:1] == target.shape[:1] and preds.shape[2:] == target.shape[1:]:
        return ValueError(f"{said} Scores of {preds.shape[1]} classes are for the metric of task 'multiclass'.")
    return ValueError(said)


def misshapen(preds: Tensor, target: Tensor, classes: int | None) -> ValueError:
    """Says what to do where predictions of classes do not fit targets."""
    given, wanted = tuple(preds.shape), tuple(target.shape)
    scores = ", ".join(map(str, [*wanted[:1], "C" if classes is None else classes, *wanted[1:]]))
    said = (
        f"preds has shape {given} and dtype {preds.dtype} but target has shape {wanted}; "
        f"expected floating-point scores ({scores}) or integer labels shaped as target."
    )
    if not preds.is_floating_point():
        return ValueError(said)
    if given == wanted and len(wanted) > 1 and wanted[1] == classes:
        said += " Of one-hot targets pass target.argmax(1); several labels a sample are for the metric of task 'multilabel'."
    elif given == wanted:
        said += " One score for each target is for the metric of task 'binary'; of labels pass preds.long()."
    elif len(given) == len(wanted) > 1 and wanted[1] == 1 and given[2:] == wanted[2:]:
        said += " Pass target.squeeze(1)."
    elif wanted and given[:-1] == wanted and given[-1] == classes:
        said += " Classes come second: pass preds.movedim(-1, 1)."
    elif given[:1] + given[2:] == wanted:
        said += f" The scores are of {given[1]} classes: check num_classes."
    return ValueError(said)


def refused(error: Exception, name: str, entries: Iterable[str], batch: Iterable[Any]) -> Exception:
    """The error of a batch that was not taken, with the metric's name.

    Where the batch holds what no metric takes, it says that, in place of whatever went wrong in the depths.
    """
    if not isinstance(error, ValueError):
        missing = isinstance(error, AttributeError)  # of what tensors have
        oddities = [_oddity(entry, x, missing) for entry, x in zip(entries, batch)]
        error = next((TypeError(said) for said in oddities if said is not None), error)
    return named(error, name)


def _oddity(entry: str, x: Any, missing: bool) -> str | None:
    if isinstance(x, Tensor):
        return of_tensor(entry, x)
    if not missing:
        return None
    if x is None:
        return f"{entry} is None; expected a tensor."
    kind = type(x).__name__ if type(x).__module__ == "builtins" else f"{type(x).__module__}.{type(x).__name__}"
    return f"{entry} is a {kind}; expected a tensor. Pass torch.as_tensor({entry})."


def named(error: Exception, name: str) -> Exception:
    """The same error with the metric's name before its message."""
    if error.args and isinstance(error.args[0], str) and not getattr(error, "tally_named", False):
        error.args = (f"{name}: {error.args[0]}", *error.args[1:])
        error.tally_named = True  # type: ignore[attr-defined]  # so that a wrapper does not name it again
    return error
