"""The code of docs/wrappers.md runs as it stands."""

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "wrappers.md"


def test_its_examples_run(capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
    exec(compile(code, str(PAGE), "exec"), {})
    assert float(capsys.readouterr().out) > 0.0
