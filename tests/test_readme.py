"""The README's Python runs."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_first_example_prints_a_number(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    exec(compile(code, "README.md", "exec"), {})
    assert 0.0 <= float(capsys.readouterr().out) <= 1.0
