"""OpenWorldRecognizer, the recommended recognizer: a metric and a threshold that follow the classes.

`recognizer.py` has the recognizer. A sample passes `representation.py`, which maps its features to a
direction, `metric.py`, which whitens it, `scoring.py`, which scores the classes, and `radial.py`, which
bounds the accepted region. `calibration.py` finds the threshold on the samples that `reservoir.py` keeps.
`cold_start.py` has the recognizer that starts without any class.
"""
