"""Modules that are loaded anew, as notebooks and servers do, while what was made of the old ones lives on."""

import subprocess
import sys

PROGRAM = """
import importlib, sys, torch
import torchtally as before
old = before.CatMetric()
for name in [name for name in sys.modules if name.startswith("torchtally")]:
    del sys.modules[name]
import torchtally as after
for metric in (old, after.CatMetric()):
    update = torch.compile(lambda x: metric.update(x), fullgraph=True, backend="eager")
    for n in (2, 3):
        update(torch.ones(n))
    print(metric.compute().tolist())
importlib.reload(sys.modules["torchtally.outside"])
"""


def test_torchtally_can_be_imported_a_second_time():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == ["[1.0, 1.0, 1.0, 1.0, 1.0]"] * 2, done.stderr
