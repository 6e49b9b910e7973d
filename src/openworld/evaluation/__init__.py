"""Evaluation in an open world: what is measured, and how sure the measurement is."""
