"""What holds for the run as a whole: nothing of torch stays replaced once the tests are over."""

import sys
from pathlib import Path
from types import CodeType, ModuleType

import pytest
import torch

import torchtally

OUR_FOLDER = str(Path(torchtally.__file__).parent)

if not torch.cuda.is_available():
    # Starts autograd's engine while it knows no device. Later, PyTorch's fake tensors make it count one, and processes forked from then on could not go backward.
    torch.ones((), requires_grad=True).backward()


def attributes_of_torch():
    """(where, name) → what is there: the functions and classes of every module of torch that is loaded, and what their classes define."""
    found = {}
    for module_name, module in sorted(sys.modules.items()):
        if not isinstance(module, ModuleType) or module_name.partition(".")[0] != torch.__name__:
            continue
        for name, value in list(vars(module).items()):
            if callable(value):
                found[module_name, name] = value
            if issubclass(type(value), type) and value.__module__ == module_name:
                for inner, part in list(vars(value).items()):
                    if callable(part) or isinstance(part, (staticmethod, classmethod, property)):
                        found[f"{module_name}.{name}", inner] = part
    return found


def of_ours(value):
    """Written in this project, however it calls itself: torch replaces parts of itself too, as when an optimiser is made or a function compiled."""
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    code = getattr(value, "__code__", None)
    return str(getattr(value, "__module__", "")).startswith("torchtally") or (isinstance(code, CodeType) and code.co_filename.startswith(OUR_FOLDER))


@pytest.fixture(scope="session", autouse=True)
def nothing_of_torch_stays_replaced():
    before = attributes_of_torch()
    yield
    left = {f"{where}.{name}": value for (where, name), value in attributes_of_torch().items() if before.get((where, name)) is not value}
    ours = [f"{name} is {value}" for name, value in left.items() if of_ours(value)]
    assert not ours, f"still there after the tests: {ours}"
    assert not of_ours(sys.gettrace())
