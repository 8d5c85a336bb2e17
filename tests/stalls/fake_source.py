"""A source of stalls that needs no device: reads of one element and boolean masks count as waits, wherever the tensors live."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torchtally.stalls.catalogue import Row
from torchtally.stalls.ownership import Owner

READ = Row("aten::_local_scalar_dense", "read", lambda call: 1, "reads a value", "keep the tensor on the device")
MASK = Row("aten::index", "shape_read", lambda call: 1, "the mask decides the shape", "use torch.where")


class FakeSource(TorchDispatchMode):
    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder
        recorder._ownership._known[__file__] = Owner.PLUMBING  # as the files of a real source are

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense" and args[0].dtype != torch.int64:  # a data loader draws an integer seed
            self.recorder(READ, "aten::_local_scalar_dense")
        elif name in ("index", "index_put", "index_put_", "_index_put_impl_") and any(i is not None and i.dtype.is_signed is False for i in args[1]):
            self.recorder(MASK, f"aten::{name}")
        elif name == "prod":
            self.recorder.remember()
        elif name == "sigmoid_backward":
            self.recorder(READ, "aten::sigmoid_backward")
        return func(*args, **(kwargs or {}))

    def __enter__(self):
        self.recorder.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.recorder.__exit__(*error)


def wait_before(node, recorder):
    """The node waits when it runs, as some do without any operator that shows it."""
    node.register_prehook(lambda gradients: recorder(READ, "hidden"))
