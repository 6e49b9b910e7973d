"""The paper's metric W.

`ncm.py` has the estimator, `likelihood.py` the likelihood that it maximizes (Eq. 1 and 2), `solvers.py` the
optimization, and `passes.py` the optimization for samples that do not fit into memory.
"""
