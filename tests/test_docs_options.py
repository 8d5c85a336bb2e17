"""The examples of docs/options.md print what they say."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "options.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


@pytest.mark.parametrize("code", BLOCKS, ids=[str(i) for i in range(len(BLOCKS))])
def test_the_page_prints_what_it_says(code, capsys):
    exec(compile(code, "options.md", "exec"), {})
    said = re.findall(r"(?:print\(.*\) +|^)# (.*)", code, re.M)
    assert capsys.readouterr().out.splitlines() == said
