"""The paper's metric W.

`ncm.py` has the estimator, `likelihood.py` what it maximizes (Eq. 1 and 2), `solvers.py` how, and `passes.py`
how with more samples than memory holds.
"""
