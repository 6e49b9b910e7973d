"""Baselines: other recognizers to compare with, all under the same contract."""
