"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import torchtally

MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(torchtally.__path__, "torchtally.")
    if not m.name.startswith(("torchtally.stalls", "torchtally.bench", "torchtally.commands", "torchtally.testing", "torchtally.__main__"))
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
