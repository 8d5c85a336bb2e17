"""`torchtally check` as one types it: what it prints, writes and ends with."""

import contextlib
import json
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import orjson
import pytest

import torchtally
from torchtally.commands import main
from torchtally.errors import TallyError
from torchtally.stalls.script import check_script

pytest.importorskip("torchtally.stalls.sources.pretend")

TRAINING = """
    import sys, torch
    print("arguments", sys.argv[1:])
    weight = torch.zeros(2, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for step in range(5):
        loss = (weight - torch.ones(2).to("cuda")).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step < 2:
            loss.item()
    print("end")
"""


@pytest.fixture
def check(tmp_path, monkeypatch, capfd):
    """Runs the command on a script of the text given; → exit code, standard output, standard error."""

    def run(text, *arguments, options=()):
        (tmp_path / "train.py").write_text(textwrap.dedent(text))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["torchtally", "check", *options, *([] if "-m" in options else ["train.py"]), *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capfd.readouterr()
        return code, out, err

    return run


def test_the_lines_are_shown_with_what_to_write_instead(check):
    code, out, _ = check(TRAINING)
    assert code == 0
    assert "train.py:7 in <module>" in out and 'torch.ones(2).to("cuda")' in out
    assert "train.py:12 in <module>" in out and "loss.item()" in out
    assert "1.4 per step" in out
    assert "→" in out
    assert "Outside the steps" not in out


def test_the_way_out_of_anothers_metric_is_told(check):
    pytest.importorskip("torchmetrics")
    loop = """
        from {} import MeanMetric
        mean = MeanMetric().to("cuda")
        for batch in torch.utils.data.DataLoader(torch.ones(4, 1)):
            mean.update(batch.to("cuda"))
    """
    script = "import torch\n" + textwrap.dedent(loop)
    _, out, _ = check(script.format("torchmetrics"))
    told = [line for line in " ".join(out.split()).split("Note: ") if "torchtally migrate" in line]
    assert len(told) == 1 and re.match(r"[1-9]\d* stalls per step inside torchmetrics: ", told[0])
    assert "migrate" not in check(script.format("torchtally"))[1]
    assert "migrate" not in check(script.format("torchmetrics"), options=["--allow", "MeanMetric*"])[1]


def test_what_happens_once_is_shown_apart(check):
    code, out, _ = check("import torch\nx = torch.ones(3).to('cuda')\n" + textwrap.dedent(TRAINING))
    steps, _, once = out.partition("Outside the steps")
    assert code == 0
    assert "train.py:2" in once and "train.py:2 " not in steps


def test_the_scripts_arguments_are_its_own(check):
    code, out, _ = check(TRAINING, "--steps", "3", "--json", "-m", "--", "x")
    assert code == 0
    assert "arguments ['--steps', '3', '--json', '-m', '--', 'x']" in out


def test_json_is_all_of_standard_output(check):
    code, out, err = check(TRAINING, options=["--steps", "4", "--json"])
    report = json.loads(out)
    assert code == 0
    assert "arguments []" in err and "end" not in err
    assert (report["tool"], report["source"], report["steps"]) == ("check", "train.py", 4)
    assert [(s["site"]["line"], s["kind"], s["count"], s["per_step"]) for s in report["stalls"]] == [
        (7, "host_to_device", 4, 1.0),
        (12, "read", 2, 0.5),
    ]


def test_json_goes_to_a_file_beside_the_text(check, tmp_path):
    code, out, _ = check(TRAINING, options=["--json=out.json", "--warmup", "2"])
    report = json.loads((tmp_path / "out.json").read_text())
    assert code == 0 and "train.py:7" in out and "arguments []" in out
    assert report["steps"] == 3
    assert [(s["site"]["line"], s["count"]) for s in report["stalls"]] == [(7, 3)]


@pytest.mark.parametrize(
    "options, code",
    [
        (["--budget", "1.4"], 0),
        (["--budget", "1.3"], 1),
        (["--budget", "1", "--warmup", "2"], 0),
        (["--budget", "0", "--warmup", "2", "--allow", "train.py:7"], 0),
        (["--budget", "0", "--allow", "train.py:7"], 1),
        (["--budget", "0", "--allow", "train.py:7", "--allow", "read"], 0),
        (["--budget", "0", "--allow", "train.py"], 0),
        (["--budget", "0", "--allow", "aten::*"], 0),
        (["--budget", "0", "--only-metrics"], 0),
    ],
)
def test_a_budget_gates(check, options, code):
    assert check(TRAINING, options=options)[0] == code


def test_offenders_are_named(check):
    _, _, err = check(TRAINING, options=["--budget", "0", "--allow", "train.py:7", "--allow", "nothing*"])
    assert "0.4 stalls per step, over the budget of 0:" in err
    assert "train.py:12 in <module>  read (aten::_local_scalar_dense)" in err
    assert "train.py:7" not in err


def test_an_allowance_without_use_is_said(check):
    _, out, _ = check(TRAINING, options=["--allow", "nothing*", "--allow", "train.py:7"])
    assert "allowing 'nothing*' matched no stall" in out
    assert "allowed by 'train.py:7': 5 stalls" in out


def test_a_script_that_fails_shows_its_own_traceback_first_and_what_was_found(check):
    code, out, err = check(TRAINING + "    torch.ones(2, device='cuda').numpy()\n")
    assert code == 3
    assert err.startswith("Traceback (most recent call last):\n  File ")
    assert "train.py\", line 14, in <module>\n    torch.ones(2, device='cuda').numpy()" in err
    assert "can't convert cuda:0 device type tensor to numpy" in err
    assert "torchtally/" not in err.partition("torchtally: the script failed with TypeError")[0]
    assert "train.py:7" in out


def test_causes_are_shown_without_our_frames_too(check):
    code, _, err = check(
        """
        import torch
        try:
            torch.ones(2, device="cuda").numpy()
        except TypeError as error:
            raise ValueError("no array") from error
        """
    )
    assert code == 3
    assert "direct cause" in err and "torchtally/" not in err.partition("torchtally: the script")[0]


def test_a_syntax_error_is_the_scripts_own(check):
    code, _, err = check("import torch\nx = = 1\n")
    assert code == 3
    assert "SyntaxError" in err and "x = = 1" in err and "script.py" not in err


@pytest.mark.parametrize(
    "ending, code, words",
    [("sys.exit()", 0, ""), ("sys.exit(0)", 0, ""), ("sys.exit(4)", 3, "ended itself with exit status 4;"), ("sys.exit('lost')", 3, "'lost'")],
)
def test_a_script_may_end_itself(check, ending, code, words):
    result = check(f"import sys, torch\ntorch.ones(1, device='cuda').item()\n{ending}\n")
    assert result[0] == code and words in result[2]
    assert "train.py:2" in result[1]


def test_device_work_that_never_waits_is_device_work(check):
    code, out, _ = check("import torch\ntorch.ones(3, device='cuda').sum()\n", options=["--budget", "0"])
    assert code == 0 and "no device work" not in " ".join(out.split())


def test_no_device_work_is_said_and_cannot_pass_a_gate(check):
    script = "import torch\nprint(torch.ones(3).sum().item())\n"
    code, out, _ = check(script)
    assert code == 0 and "no device work at all" in " ".join(out.split())
    code, _, err = check(script, options=["--budget", "0"])
    assert code == 2 and "cannot be judged" in err


def test_without_steps_the_budget_is_of_the_whole(check):
    script = "import torch\nx = torch.ones(3, device='cuda')\nx.sum().item()\nx.max().item()\n"
    assert check(script, options=["--budget", "2"])[0] == 0
    code, _, err = check(script, options=["--budget", "1"])
    assert code == 1 and "2 stalls in all" in err


@pytest.mark.parametrize(
    "options, words",
    [
        (["--warmup", "9"], "leaves nothing of the 5"),
        (["--json=nowhere/out.json"], "nowhere/out.json: cannot be written"),
        (["-m", "not_there_at_all"], "there is no such module"),
    ],
)
def test_mistakes_are_said_in_a_line(check, options, words):
    code, _, err = check(TRAINING, options=options)
    assert code == 2 and words in err and "Traceback" not in err


def test_a_script_that_is_not_there(check, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["torchtally", "check", "gone.py"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "gone.py: No such file" in capfd.readouterr().err


def test_a_module_and_its_package(check, tmp_path):
    package = tmp_path / "made_up_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nfrom . import work\nprint(__package__, sys.argv[1:])\nwork.run()\n")
    (package / "work.py").write_text("import torch\ndef run():\n    torch.ones(1, device='cuda').item()\n")
    code, out, _ = check(TRAINING, "--lr", "3", options=["-m", "made_up_package"])
    assert code == 0
    assert "made_up_package ['--lr', '3']" in out and "work.py:3 in run" in out


def test_classes_of_the_script_pickle_and_its_children_find_it(check):
    code, out, err = check(
        """
        import pickle, torch
        from torch.utils.data import DataLoader, Dataset

        class Squares(Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, i):
                return torch.tensor(i * i)

        if __name__ == "__main__":
            assert type(pickle.loads(pickle.dumps(Squares()))) is Squares
            for start in ("fork", "spawn"):
                total = sum(batch.cuda().sum() for batch in DataLoader(Squares(), num_workers=1, multiprocessing_context=start))
                print(start, total.item())
        """
    )
    assert code == 0, err
    assert "fork 14" in out and "spawn 14" in out
    assert "train.py:14" in out


def test_a_child_process_is_checked(check):
    code, out, err = check(
        """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "import child"], check=True)
        """
    )
    assert code == 3 and "No module named 'child'" in err
    code, out, err = check(
        """
        import pathlib, subprocess, sys
        pathlib.Path("child.py").write_text("import torch\\ntorch.ones(1, device='cuda').item()\\n")
        subprocess.run([sys.executable, "child.py"], check=True)
        """
    )
    assert code == 0, err
    assert "child.py:2" in out and "1 child process used the device" in out


def test_what_reaches_past_the_device_is_named(check, tmp_path):
    (tmp_path / "pynvml.py").write_text("")
    _, out, _ = check("import pynvml, torch\ntorch.ones(1, device='cuda')\n")
    assert "pynvml was imported: what it reads from the driver cannot be pretended" in " ".join(out.split())


def test_progress_is_said_on_standard_error(check, monkeypatch):
    from torchtally.commands import check as command

    monkeypatch.setattr(command, "_EVERY_S", 0.0)
    _, _, err = check(TRAINING, options=["--steps", "4"])
    assert "torchtally: step 1 of 4, " in err and "torchtally: step 4 of 4, " in err


def test_a_script_that_redirects_and_moves_does_not_take_the_report_along(check, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    text = """
        import io, os, sys, torch
        os.chdir("elsewhere")
        sys.stdout = io.StringIO()
        torch.ones(3, device="cuda").sum().item()
    """
    code, out, _ = check(text, options=("--json=stalls.json",))
    assert code == 0
    assert "train.py:5" in out and str(tmp_path) not in out
    assert (tmp_path / "stalls.json").exists()


def test_leaving_by_os_exit_does_not_pass_a_gate(check):
    code, out, err = check("import os, torch\ntorch.ones(3, device='cuda').sum().item()\nos._exit(0)", options=("--budget", "0"))
    assert code == 1
    assert "train.py:2" in out and "over the budget" in err


def test_a_folder_without_a_main_is_named(check, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(TallyError, match=r"^.*folder: it is a folder without a __main__\.py; expected a Python script"):
        check_script(str(tmp_path / "folder"))


WAITS = "torch.ones(3, device='cuda').sum().item()\n"


@pytest.mark.parametrize(
    "ending",
    [
        "sys.stdout.close()",
        "sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
        "sys.stdout = sys.stderr = None",
        "sys.stdout = io.StringIO(); sys.stdout.close(); os.close(1); os.close(2)",
        "os.dup2(os.open(os.devnull, os.O_WRONLY), 1); sys.stdout.detach()",
        "contextlib.redirect_stdout(None).__enter__(); threading.Thread(target=sys.exit, args=(4,)).start()",
        "del sys.stdout",
    ],
)
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_the_report_is_told_whatever_became_of_the_streams(tmp_path, ending, as_json):
    text = f"import contextlib, io, os, sys, threading, torch\n{WAITS}{ending}\n{WAITS}"
    code, out, err = forked(tmp_path, text, "--budget", "0", *(["--json"] if as_json else []))
    assert code == 1, err
    if as_json:
        assert [s["site"]["line"] for s in orjson.loads(out)["stalls"]] == [2, 4]
    else:
        assert "train.py:2" in out and "train.py:4" in out


def forked(tmp_path, text, *options):
    """The command in a copy of this process, whose streams are as those of a fresh one; → exit code, standard output, standard error."""
    (tmp_path / "train.py").write_text(text)
    files = [tmp_path / "out", tmp_path / "err"]
    pid = os.fork()
    if not pid:
        code = 70
        try:
            os.chdir(tmp_path)
            os.environ["COLUMNS"] = "200"
            for number, (file, name) in enumerate(zip(files, ("stdout", "stderr")), 1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
                stream = open(number, "w", closefd=False)  # noqa: SIM115  # it is the script's to close
                setattr(sys, name, stream)
                setattr(sys, f"__{name}__", stream)
            sys.argv = ["torchtally", "check", *options, "train.py"]
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), *(file.read_text() for file in files)


def run_check(tmp_path, text, *options):
    """The command in a process of its own."""
    (tmp_path / "train.py").write_text(text)
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(Path(torchtally.__file__).parents[1])}
    command = [sys.executable, "-m", "torchtally", "check", *options, "train.py"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, env=environment)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_closed_streams_of_a_process(tmp_path, options):
    found = run_check(tmp_path, f"import sys, torch\n{WAITS}print('said')\nsys.stdout.close()\nsys.stderr.close()\n{WAITS}1 / 0\n", *options)
    assert found.returncode == 3, found
    assert "ZeroDivisionError" in found.stderr and "the script failed with ZeroDivisionError" in found.stderr
    if options:
        assert [s["site"]["line"] for s in orjson.loads(found.stdout)["stalls"]] == [2, 6] and "said" in found.stderr
    else:
        assert "said" in found.stdout and "train.py:6" in found.stdout
    assert "torchtally/" not in found.stderr  # no traceback of ours


THREADS = """
import os, sys, threading, time, torch
def work():
    {inside}
torch.ones(3, device='cuda').sum().item()
threading.Thread(target=work).start()
{after}
"""


@pytest.mark.parametrize(
    "inside, after, code",
    [
        ("time.sleep(0.2); os._exit(0)", "time.sleep(60)", 1),  # the main thread waits
        pytest.param("time.sleep(0.2); os._exit(0)", "threading.Event().wait(60)", 1, marks=pytest.mark.slow),
        ("time.sleep(0.2); os._exit(5)", "while True: pass", 3),
        ("time.sleep(60)", "os._exit(0)", 1),  # a thread that nobody waits for
        pytest.param("time.sleep(0.1); sys.exit(4)", "time.sleep(0.3)", 1, marks=pytest.mark.slow),  # of the thread alone
    ],
)
def test_leaving_from_threads_and_past_threads(tmp_path, inside, after, code):
    begun = time.monotonic()
    found = run_check(tmp_path, THREADS.format(inside=inside, after=after), "--budget", "0")
    assert found.returncode == code, found
    assert "train.py:5" in found.stdout and time.monotonic() - begun < 50
    assert "exit status 5" in found.stderr if code == 3 else "over the budget" in found.stderr


def test_a_child_that_leaves_abruptly_is_in_the_report(check):
    text = """
        import os, subprocess, sys, torch
        if len(sys.argv) > 1:
            torch.ones(3, device="cuda").sum().item()
            os._exit(0)
        subprocess.run([sys.executable, __file__, "child"], check=True)
    """
    code, out, _ = check(text)
    assert code == 0
    assert "train.py:4" in out
