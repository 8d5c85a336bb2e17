"""What holds for the run as a whole: nothing of torch stays replaced once the tests are over."""

import sys
from types import ModuleType

import pytest
import torch  # noqa: F401 - its modules are what is compared

REPLACES_ITSELF = ("torch._dynamo", "torch._inductor", "torch.testing")  # as it works


def attributes_of_torch():
    """(where, name) → what is there: the functions and classes of every module of torch that is loaded, and what their classes define."""
    found = {}
    for module_name, module in sorted(sys.modules.items()):
        if not isinstance(module, ModuleType) or not (module_name + ".").startswith("torch.") or module_name.startswith(REPLACES_ITSELF):
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
    return str(getattr(value, "__module__", "")).startswith("torchtally")


@pytest.fixture(scope="session", autouse=True)
def torch_is_left_as_it_was():
    before = attributes_of_torch()
    yield
    after = attributes_of_torch()
    replaced = [f"{where}.{name}" for (where, name), value in before.items() if after.get((where, name)) is not value]
    added = [f"{where}.{name}" for (where, name), value in after.items() if (where, name) not in before and of_ours(value)]
    assert not replaced + added, f"still replaced after the tests: {replaced}; added: {added}"
    assert not of_ours(sys.gettrace())
