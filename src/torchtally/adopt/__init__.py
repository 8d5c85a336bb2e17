from .nan_check import suppress_nan_check

__all__ = ["suppress_nan_check"]
