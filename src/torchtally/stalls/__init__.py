"""Find what makes the host wait for the device: see the guide in docs/."""

from .allowing import allow
from .probes import probe_lines
from .profile import profile
from .sources.live import watch
from .sources.pretend import pretend_cuda
from .sources.trace import read_trace, read_traces
from .stall import Report, Site, Stall

__all__ = ["Report", "Site", "Stall", "allow", "pretend_cuda", "probe_lines", "profile", "read_trace", "read_traces", "watch"]
