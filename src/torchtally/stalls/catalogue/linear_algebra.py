"""Decompositions: their status is checked on the host, so that a singular matrix raises at once."""

from __future__ import annotations

from .row import Call, Row, once


def svd(call: Call) -> int:
    """The default driver is iterative: its convergence is read before the status is."""
    if not call.device(call.arg(0, "A")):
        return 0
    return 1 if call.kwargs.get("driver") == "gesvd" else 2


def pseudo_inverse(call: Call) -> int:
    return (1 if call.kwargs.get("hermitian", False) else 2) * call.device(call.arg(0, "self"))


CHECK = "The status of the decomposition is read on the host."
EX = "the `_ex` form (`inv_ex`, `cholesky_ex`, `solve_ex`, `lu_factor_ex`), which leaves the status on the device"

ROWS = (
    Row("aten::_linalg_check_errors", "read", once, CHECK, EX, when="`inv`, `cholesky`, `solve`, `lu_factor`, `ldl_factor`, `tensorinv`, `matrix_power(-n)`"),
    Row("aten::_linalg_svd", "read", svd, "Convergence and status are read on the host.", "once per many steps; for a norm, the Frobenius norm",
        when="`svd`, `svdvals`, `matrix_rank`, `cond`, `norm(ord=2)`, nuclear norms"),
    Row("aten::_linalg_eigh", "read", once, CHECK, "once per many steps", when="`eigh`, `eigvalsh`"),
    Row("aten::linalg_eig", "read", once, "The algorithm runs partly on the host.", "`eigh` for symmetric matrices", exact=False),
    Row("aten::linalg_eigvals", "read", once, "The algorithm runs partly on the host.", "`eigvalsh` for symmetric matrices", exact=False),
    Row("aten::_linalg_eigvals", "read", once, "The algorithm runs partly on the host.", "`eigvalsh` for symmetric matrices", exact=False),
    Row("aten::linalg_lstsq", "read", once, CHECK, "solve the normal equations with `cholesky_ex` and `cholesky_solve`", exact=False),
    Row("aten::linalg_pinv", "read", pseudo_inverse, "Runs `svd` inside, or `eigh` for hermitian matrices.", "`solve_ex`, or once per many steps",
        overloads=("atol_rtol_tensor",)),
    Row("aten::linalg_matrix_exp", "device_to_host", once, "Norms are read on the host to choose the approximation.", "once per many steps",
        exact=False),
    Row("aten::cholesky", "read", once, CHECK, "`torch.linalg.cholesky_ex`", until="2.14", when="the old `torch.cholesky`"),
)
