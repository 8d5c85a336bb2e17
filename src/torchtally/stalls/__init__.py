"""Find what makes the host wait for the device: see the guide in docs/."""

from .sources.trace import read_trace, read_traces
from .stall import Report, Site, Stall

__all__ = ["Report", "Site", "Stall", "read_trace", "read_traces"]
