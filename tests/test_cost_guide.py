"""The example and the price list in docs/cost-model.md work as they stand."""

import re
from pathlib import Path

from torchtally.stalls.price import names, price

GUIDE = (Path(__file__).parent.parent / "docs" / "cost-model.md").read_text(encoding="utf-8")


def block(language):
    return re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL).group(1)


def test_the_example_runs_and_finds_its_one_wait(capsys):
    code = compile(block("python"), "example", "exec")
    exec(code, {})
    out = capsys.readouterr().out
    assert "Predicted for NVIDIA A40, not measured" in out
    assert "1 wait a step" in out and "example:16 costs" in out


def test_the_price_list_can_be_read(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(block("toml"))
    mine = price(path)
    assert mine.rate("tf32", "typical") == 80e12 * 0.55
    assert mine.bandwidth.source == "its datasheet"


def test_every_price_list_is_named():
    listed = re.search(r"lists the price lists: ([\w, ]+)\.", GUIDE).group(1)
    assert sorted(listed.split(", ")) == names()
