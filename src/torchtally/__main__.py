"""`python -m torchtally` is `torchtally`."""

from .commands import main

main()
