"""A CUDA device that is not there: real code runs on the host, and every wait for a device is found."""

from .pretending import pretend_cuda

__all__ = ["pretend_cuda"]
