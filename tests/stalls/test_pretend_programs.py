"""Pieces of users' programs run on the pretend device, and their results are on it."""

import copy
import io
import pickle
import threading
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchtally.stalls import pretend_cuda

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


def ones(*shape, **options):
    return torch.ones(*shape, device="cuda", **options)


def checkpointed(reentrant):
    from torch.utils.checkpoint import checkpoint

    model, x = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).cuda(), ones(2, 3, requires_grad=True)
    checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    return x.grad


def custom_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            assert torch.zeros(3).device.type == "cpu" and x.is_cuda and gradient.is_cuda
            return gradient * 2 * ones(3)

    x = ones(3, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    return x.grad


def moving_average():
    model = nn.Linear(2, 2).cuda()
    average = copy.deepcopy(model)
    with torch.no_grad():
        for p, q in zip(average.parameters(), model.parameters()):
            p.data.lerp_(q.data, 0.1)
            p.data.copy_(q.data)
            p.mul_(0.9).add_(q, alpha=0.1)
    return average.weight


def averaged_model():
    model = nn.Linear(2, 2).cuda()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    average.update_parameters(model)
    average.update_parameters(model)
    return average.module.weight


def recurrent():
    out, _ = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True).cuda()(ones(2, 5, 3))
    out.sum().backward()
    return out


def packed():
    sequence = nn.utils.rnn.pack_padded_sequence(ones(2, 5, 3), torch.tensor([5, 3]), batch_first=True)
    out, _ = nn.GRU(3, 4, batch_first=True).cuda()(sequence)
    return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]


def transformer():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).cuda()(ones(2, 4, 8))


def convolutions(dtype):
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(4, 2, 2, 2))
    out = model.to("cuda", dtype)(ones(2, 3, 8, 8, dtype=dtype).to(memory_format=torch.channels_last))
    out.sum().backward()
    assert out.dtype is dtype and model[0].weight.grad.dtype is dtype
    return out


def swapped():
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        model = nn.Linear(2, 2)
        weight = model.weight
        assert model.cuda().weight is weight
        return weight
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def moved_under_an_optimizer():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.cuda()
    model(ones(1, 2)).sum().backward()
    before = model.weight.clone()
    optimizer.step()
    assert not torch.equal(before, model.weight)
    return optimizer.param_groups[0]["params"][0]


def reloaded_optimizer():
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    model(ones(1, 2)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save(copy.deepcopy(optimizer.state_dict()), file)
    file.seek(0)
    optimizer.load_state_dict(torch.load(file))
    optimizer.step()
    return optimizer.state[model.weight]["exp_avg"]


def capturable():
    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1, device="cuda"), capturable=True)
    model(ones(1, 2)).sum().backward()
    optimizer.step()
    return optimizer.state[model.weight]["step"]


def closure():
    weight = ones(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight])

    def evaluate():
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    optimizer.step(evaluate)
    return weight


def data_parallel():
    model = nn.DataParallel(nn.Linear(3, 2).cuda())
    model(ones(4, 3)).sum().backward()
    return model.module.weight.grad


def first_part(split):
    x = ones(6, requires_grad=True)
    split(x * 2)[0].sum().backward()  # the engine makes the gradients of the other parts
    return x.grad


def twice_differentiated():
    x = ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    gradient.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0, 6.0]
    return x.grad


def scripted():
    @torch.jit.script
    def doubled(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros_like(x)
        for _ in range(2):
            y = y + x
        return y

    return doubled(ones(2))


def on_meta_first():
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    return model.to_empty(device="cuda").weight


def in_device_context():
    with torch.device("cuda"):
        assert nn.Linear(2, 2).weight.is_cuda
        return torch.zeros(3)


def by_default_device():
    torch.set_default_device("cuda")
    try:
        assert torch.tensor([1.0]).is_cuda and nn.Linear(2, 2).weight.is_cuda
        return F.relu(torch.zeros(3))
    finally:
        torch.set_default_device(None)


def changed_in_place():
    x = torch.zeros(4, device="cuda")
    x.view(2, 2).add_(1)
    x.resize_(2, 2).t_().unsqueeze_(0)
    assert x.sum() == 4
    return x


def given_out():
    out = torch.empty(3, device="cuda")
    torch.add(ones(3), 1, out=out)
    return out


def subclass():
    class Image(torch.Tensor):
        pass

    image = torch.ones(3).as_subclass(Image).to("cuda")
    assert type(image) is Image and type(image + 1) is Image and image.cpu().device.type == "cpu"
    return image + 1


def from_an_array():
    array = np.ones(3)
    x = torch.as_tensor(array, device="cuda")
    array[0] = 5
    assert x.tolist() == [1.0, 1.0, 1.0]
    return x


def sent_to_another_process():
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing  # noqa: F401  # registers how tensors are sent

    return pickle.loads(bytes(ForkingPickler.dumps(ones(2))))


def numbered():
    device = torch.device(0)  # which needs an accelerator in some builds
    assert isinstance(device, torch.device) and device == torch.device("cuda:0")
    return torch.zeros(1, device=device)


def wrapper():
    from torch.testing._internal.two_tensor import TwoTensor  # a wrapper, as DTensor is one

    return TwoTensor(ones(2), ones(2))


def compiled():
    @torch.compile(mode="reduce-overhead")
    def twice(x):
        return x * 2

    model = torch.compile(nn.Linear(2, 2).cuda())
    model.compile()
    return twice(model(ones(1, 2)))


def in_inference_mode():
    with torch.inference_mode():
        x = nn.Linear(2, 2).cuda()(torch.ones(1, 2).to("cuda"))
        assert isinstance(x.sum().item(), float)
        return x


PROGRAMS = {
    "checkpoint, reentrant": lambda: checkpointed(True),
    "checkpoint": lambda: checkpointed(False),
    "custom function": custom_function,
    "moving average": moving_average,
    "averaged model": averaged_model,
    "LSTM": recurrent,
    "packed sequence": packed,
    "transformer": transformer,
    "attention": lambda: nn.MultiheadAttention(4, 2, batch_first=True).cuda()(*[ones(2, 3, 4)] * 3)[0],
    "convolutions": lambda: convolutions(torch.float32),
    "half convolutions": lambda: convolutions(torch.float16),
    "bfloat16": lambda: nn.Linear(3, 3).cuda().bfloat16()(ones(1, 3, dtype=torch.bfloat16)),
    "swapped parameters": swapped,
    "moved under an optimizer": moved_under_an_optimizer,
    "reloaded optimizer": reloaded_optimizer,
    "capturable": capturable,
    "LBFGS": closure,
    "DataParallel": data_parallel,
    "split": lambda: first_part(lambda x: x.split(2)),
    "unbind": lambda: first_part(lambda x: x.unbind()),
    "slice": lambda: first_part(lambda x: [x[1:3]]),
    "second derivative": twice_differentiated,
    "embedding": lambda: nn.Embedding(5, 3).cuda()(torch.arange(2, device="cuda")),
    "vmap": lambda: torch.func.vmap(lambda x: x * 2 + torch.ones_like(x))(ones(3, 2)),
    "func.grad": lambda: torch.func.grad(lambda x: (x**2).sum())(ones(3)),
    "jacrev": lambda: torch.func.jacrev(lambda x: x**2)(ones(3)),
    "jit.script": scripted,
    "jit.trace": lambda: torch.jit.trace(nn.Linear(2, 2).cuda(), ones(1, 2))(ones(1, 2)),
    "to_empty": on_meta_first,
    "with torch.device": in_device_context,
    "set_default_device": by_default_device,
    "pickle": lambda: pickle.loads(pickle.dumps(nn.Linear(2, 2).cuda())).weight,
    "in place": changed_in_place,
    "out=": given_out,
    "mask": lambda: torch.arange(4, device="cuda")[torch.arange(4, device="cuda") > 1],
    "dlpack": lambda: torch.from_dlpack(ones(2)),
    "distribution": lambda: torch.distributions.Normal(ones(2), ones(2)).sample(),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2).cuda())(ones(1, 2)),
    "parameters_to_vector": lambda: nn.utils.parameters_to_vector(nn.Linear(2, 2).cuda().parameters()),
    "old constructor": lambda: torch.cuda.FloatTensor([1.0, 2.0]),
    "nested": lambda: torch.nested.nested_tensor([ones(2), ones(3)]),
    "jagged": lambda: torch.nested.nested_tensor([ones(2, 2), ones(3, 2)], layout=torch.jagged),
    "sparse": lambda: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device="cuda"),
    "make_graphed_callables": lambda: torch.cuda.make_graphed_callables(nn.Linear(2, 2).cuda(), (ones(1, 2),))(ones(1, 2)),
    "tensor subclass": subclass,
    "array": from_an_array,
    "another process": sent_to_another_process,
    "torch.compile": compiled,
    "torch.device(0)": numbered,
    "wrapper": wrapper,
    "LSTM cell": lambda: nn.LSTMCell(2, 3).cuda()(ones(1, 2))[0],
    "share_memory": lambda: nn.Linear(2, 2).cuda().share_memory().weight,
    "FFT": lambda: torch.fft.rfft(ones(8)).abs(),
    "shuffled loader": lambda: next(iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(ones(4, 2)), batch_size=2, shuffle=True)))[0],
    "inference mode": in_inference_mode,
    "CTC": lambda: F.ctc_loss(ones(5, 2, 4).log_softmax(-1), ones(2, 3, dtype=torch.long), torch.tensor([5, 5]), torch.tensor([3, 3])),
    "set_": lambda: torch.empty(0, device="cuda").set_(ones(3).untyped_storage()),
    "gumbel softmax": lambda: F.gumbel_softmax(ones(2, 3)),
    "interpolate": lambda: F.interpolate(ones(1, 1, 4, 4), scale_factor=2, mode="bilinear"),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_result_is_on_the_device(program):
    with pretend_cuda():
        assert program().device == torch.device("cuda", 0)


def test_hooks_see_gradients_on_the_device():
    with pretend_cuda():
        seen = []
        model = nn.Linear(2, 2).cuda()
        model.weight.register_hook(lambda gradient: seen.append(gradient.is_cuda))
        model.register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].is_cuda))
        model(ones(1, 2, requires_grad=True)).sum().backward()
        assert seen == [True, True]


def test_new_threads_pretend_too():
    with pretend_cuda():
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.zeros(2, device="cuda").is_cuda))
        thread.start()
        thread.join()
        assert seen == [True]


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)), index


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pin", [True, False])
def test_batches_are_pinned_as_asked(workers, pin):
    with pretend_cuda() as recorder:
        loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=workers, pin_memory=pin)
        for x, y in loader:
            assert x.is_pinned() is pin and y.is_pinned() is pin
            before = len(recorder.stalls)
            assert x.to("cuda", non_blocking=True).is_cuda and x.cuda(non_blocking=pin).is_cuda
            assert len(recorder.stalls) - before == (0 if pin else 1)


def test_what_is_not_as_on_a_device_is_noted():
    with pretend_cuda() as recorder:
        torch.compile(lambda x: x)(ones(2))
        torch.cuda.utilization()
        with pytest.raises(ImportError), warnings.catch_warnings():
            import pycuda  # noqa: F401
    assert [note.split(":")[0].split(" ")[0] for note in recorder.notes] == ["torch.compile", "torch.cuda.utilization", "pycuda"]


def test_what_cannot_be_exported_is_refused_cleanly():
    with pretend_cuda(), pytest.raises(RuntimeError, match="export outside of pretend_cuda"):
        torch.export.export(nn.Linear(2, 2).cuda(), (ones(1, 2),))


def test_other_modes_work_inside():
    from torch.overrides import TorchFunctionMode
    from torch.utils.flop_counter import FlopCounterMode

    seen = []

    class Watching(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    with pretend_cuda():
        with Watching():
            assert F.relu(ones(2)).cpu().device.type == "cpu"
        with FlopCounterMode(display=False) as counter:
            nn.Linear(4, 4).cuda()(ones(2, 4)).sum().backward()
        assert seen == ["ones", "relu", "cpu"] and counter.get_total_flops() == 2 * 2 * 2 * 4 * 4
