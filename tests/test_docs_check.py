"""The examples of docs/check.md do what the page says."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from torchtally.commands import main

PAGE = (Path(__file__).parents[1] / "docs" / "check.md").read_text()
SCRIPT, TEST, MARKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)
COMMANDS = re.findall(r"^\$ torchtally (.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.M)
torchmetrics = pytest.importorskip("torchmetrics")


def words(text):
    return " ".join(text.split())


@pytest.mark.skipif(not torchmetrics.__version__.startswith("1.9"), reason="shows torchmetrics 1.9")
@pytest.mark.parametrize("command, shown", COMMANDS, ids=[c for c, _ in COMMANDS])
def test_a_command_prints_what_is_shown(command, shown, tmp_path, monkeypatch, capfd):
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "argv", ["torchtally", *shlex.split(command)])
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    printed = words("".join(capfd.readouterr()) + f" exit code {code}")
    for line in shown.splitlines():
        assert words(line) in printed


def test_there_are_commands_to_try():
    assert len(COMMANDS) == 4


def test_the_assertion_of_the_page_passes():
    exec(TEST, {})


def test_options_of_the_page_exist(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr(sys, "argv", ["torchtally", "check", "--help"])
    with pytest.raises(SystemExit):
        main()
    offered = capsys.readouterr().out
    own = set(re.findall(r"`(--[a-z-]+)", PAGE)) - {"--stalls"}
    assert all(option in offered for option in own), own


def test_the_example_of_pretending_names_what_waits(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "docs" / "pretending.md").read_text(), re.S)
    exec(compile(code, "pretending.md", "exec"), {})
    value, *stalls = capsys.readouterr().out.splitlines()
    assert float(value) == float(value) and len(stalls) == 3 and "_local_scalar_dense" in stalls[-1]
