"""What a new user sees: every command is told of, helps with an example, and its page names only what there is."""

import io
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from torchtally import commands
from torchtally.commands import COMMANDS, app


def shown(*arguments):
    result = CliRunner(env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).invoke(app, [*arguments])
    return result.exit_code, " ".join(result.output.split())


def test_help_groups_the_commands_and_says_how_to_start():
    code, text = shown("--help")
    assert code == 0
    for name, (group, what) in COMMANDS.items():
        assert group in text and what.split(",")[0] in text, name
    assert "Start with: torchtally check train.py" in text and "Exit codes: 0 fine" in text


def test_no_command_at_all_is_a_question_for_help():
    assert all(name in shown()[1] for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_helps_with_an_example_of_itself(name):
    code, text = shown(name, "--help")
    assert code == 0
    example = re.search(r"Examples?: (.*)", text)[1]
    assert f"torchtally {name} " in example
    offered = set(re.findall(r"--[a-z][a-z-]+", text.split("Example")[0]))
    own = re.split(r" · |; ", example)
    used = {o for e in own if e.startswith(f"torchtally {name} ") for o in re.findall(r"--[a-z][a-z-]+", e)} - {"--lr"}
    assert used <= offered


def test_a_mistyped_command_is_answered():
    code, text = shown("chekc")
    assert code == 2 and "No such command" in text


def test_version():
    assert shown("--version")[1].startswith("torchtally")


def test_it_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-c", "import runpy, sys; sys.argv[1:] = ['--version']; runpy.run_module('torchtally', run_name='__main__')"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0 and done.stdout.startswith("torchtally"), done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_output_that_has_no_arrows_does_without(encoding, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    monkeypatch.setattr(sys, "argv", ["torchtally", "--help"])
    with pytest.raises(SystemExit, match="0"):
        commands.main()
    sys.stdout.flush()
    assert b"torchtally check train.py" in written.getvalue()
