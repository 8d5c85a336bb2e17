"""One-shot forms of the metrics of text."""

from __future__ import annotations

from .. import text as t
from .one_shot import one_shot

perplexity = one_shot(t.Perplexity, "perplexity")

__all__ = ["perplexity"]
