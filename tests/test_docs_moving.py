"""What docs/moving.md says is so."""

import re
from pathlib import Path

import torch

import torchtally
from torchtally.adopt.migration import migrate_source

PAGE = (Path(__file__).parent.parent / "docs" / "moving.md").read_text()


def test_its_code_runs(capsys):
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(code, "moving.md", "exec"), {})
    assert "accuracy" in capsys.readouterr().out


def test_its_diff_is_what_migrate_does():
    (diff,) = re.findall(r"```diff\n(.*?)```", PAGE, re.S)
    before, after = ("".join(f"{line[1:]}\n" for line in diff.splitlines() if line[0] == sign) for sign in "-+")
    assert migrate_source(before).after == after


def test_the_names_it_promises_are_there():
    for table in re.findall(r"\| ignite \| torchtally \|\n(.*?)\n\n|\Z", PAGE, re.S):
        for row in table.splitlines()[1:]:
            for name in re.findall(r"`([A-Z]\w+)", row.split(" | ")[1]):
                assert hasattr(torchtally, name) or hasattr(torchtally.classification, name), name


def test_a_function_on_a_device_waits_once_or_not_at_all_as_the_page_says():
    from torchtally.functional import accuracy
    from torchtally.stalls import pretend_cuda

    for checked, waits in ((True, 1), (False, 0)):
        with pretend_cuda() as recorder:
            preds, target = torch.rand(4, 3, device="cuda"), torch.zeros(4, dtype=torch.long, device="cuda")
            before = len(recorder.stalls)
            accuracy(preds, target, task="multiclass", num_classes=3, validate_args=checked)
            assert len(recorder.stalls) - before == waits
