"""torch.cuda and torch.accelerator answer for the pretend devices."""

import pytest
import torch
from torch import nn

from torchtally.stalls import pretend_cuda


@pytest.fixture(autouse=True)
def recorder():
    with pretend_cuda(devices=2) as found:
        yield found


def operators(recorder):
    return [stall.operator for stall in recorder.stalls]


def test_queries():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2 and torch.cuda.is_initialized()
    assert torch.cuda.get_device_capability() == (8, 0) and "pretend" in torch.cuda.get_device_name()
    properties = torch.cuda.get_device_properties(1)
    assert properties.total_memory == torch.cuda.mem_get_info()[1] and properties.multi_processor_count > 0
    assert torch.cuda.is_bf16_supported() and torch.backends.cudnn.is_available()
    torch.cuda.nvtx.range_push("step")
    torch.cuda.nvtx.range_pop()


def test_memory_in_use():
    before = torch.cuda.memory_allocated()
    x = torch.zeros(1000, device="cuda")
    views = [x[i:] for i in range(3)]
    assert torch.cuda.memory_allocated() - before == 4000
    assert torch.cuda.memory_allocated(1) == 0
    del x, views
    assert torch.cuda.memory_allocated() == before and torch.cuda.max_memory_allocated() >= before + 4000
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == before and "pretend" in torch.cuda.memory_summary()


def test_the_current_device():
    assert torch.zeros(1, device="cuda").device.index == 0
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1 and torch.zeros(1, device="cuda").device.index == 1
        assert nn.Linear(1, 1).cuda().weight.device.index == 1
    torch.cuda.set_device("cuda:1")
    assert torch.zeros(1).cuda().device.index == 1 and torch.zeros(1).cuda(0).device.index == 0
    with torch.cuda.device_of(torch.zeros(1, device="cuda:0")):
        assert torch.cuda.current_device() == 0
    assert torch.cuda.current_device() == 1


def test_streams_and_events(recorder):
    stream, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        start.record()
        x = torch.zeros(3, device="cuda")
        end.record()
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_event(end)
    x.record_stream(stream)
    assert start.elapsed_time(end) > 0 and stream.query() and end.query()
    assert operators(recorder) == []
    end.synchronize()
    stream.synchronize()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.accelerator.synchronize()
    assert operators(recorder) == [
        "torch.cuda.Event.synchronize", "torch.cuda.Stream.synchronize", "torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.accelerator.synchronize",
    ]  # fmt: skip


def test_random_numbers():
    one, two = (torch.Generator("cuda").manual_seed(3) for _ in range(2))
    assert one.device == torch.device("cuda", 0)
    assert torch.equal(torch.randn(3, device="cuda", generator=one), torch.randn(3, device="cuda", generator=two))
    torch.cuda.manual_seed_all(1)
    state = torch.cuda.get_rng_state()
    first = torch.rand(2, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.rand(2, device="cuda"))
    with torch.random.fork_rng(devices=[0]):
        torch.manual_seed(0)


def test_a_generator_of_the_host_is_refused_on_the_device():
    with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
        torch.randn(3, device="cuda", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.randn(3, generator=torch.Generator("cuda"))


def test_accelerator():
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator() == torch.device("cuda")
    assert torch.accelerator.device_count() == 2
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_device_index() == torch.cuda.current_device() == 1


def test_a_captured_graph_is_replayed():
    graph, x = torch.cuda.CUDAGraph(), torch.ones(3, device="cuda")
    with torch.cuda.graph(graph):
        y = (x * 2).relu_()[1:]
    x.fill_(5.0)
    graph.replay()
    assert y.tolist() == [10.0, 10.0]


def test_old_types():
    x = torch.ones(2, device="cuda")
    assert x.type() == "torch.cuda.FloatTensor" and isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x.cpu(), torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.LongTensor)
    assert x.type(torch.cuda.LongTensor).dtype is torch.int64 and x.type("torch.FloatTensor").device.type == "cpu"


def test_parallel_over_two_devices(recorder):
    model = nn.DataParallel(nn.Linear(3, 2).cuda())
    out = model(torch.ones(4, 3, device="cuda"))
    out.sum().backward()
    assert out.device.index == 0 and model.module.weight.grad.tolist() == [[4.0] * 3] * 2


def test_gradients_of_several_devices_are_clipped_together():
    models = [nn.Linear(2, 2).to(f"cuda:{index}") for index in range(2)]
    parameters = [p for model in models for p in model.parameters()]
    for index, model in enumerate(models):
        model(torch.ones(1, 2, device=f"cuda:{index}")).sum().backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    torch.optim.Adam(parameters).step()
    assert {p.grad.device.index for p in parameters} == {0, 1}


def test_sessions_may_be_nested(recorder):
    with pretend_cuda() as inner:
        torch.ones(1, device="cuda").item()
        assert torch.cuda.device_count() == 1
    assert torch.cuda.device_count() == 2
    torch.ones(1, device="cuda").item()
    assert len(inner.stalls) == 1 and len(recorder.stalls) == 2
