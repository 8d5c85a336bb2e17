"""The catalogue on a real GPU, where there is one."""

import pytest
import torch


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: runs tests/gpu/check_catalogue.py")
@pytest.mark.filterwarnings("default")
def test_the_catalogue_tells_the_truth():
    from check_catalogue import main

    assert main() == 0, "the lines above say where catalogue and device disagree"
