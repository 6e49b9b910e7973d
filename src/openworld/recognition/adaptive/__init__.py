"""OpenWorldRecognizer, the recommended recognizer: a metric and a threshold that follow the classes.

`recognizer.py` has the recognizer, and `memory.py` what it keeps of the classes. A sample passes

1. `representation.py`, which maps its features to a direction, with or without a lift (`choice.py` chooses);
2. `metric.py`, which whitens it by the covariance of all classes known so far;
3. `score.py`, the formula of the score, and `scoring.py`, which computes it for all classes;
4. `radial.py`, which bounds the accepted region.

`calibration.py` finds weights and threshold on the samples that `reservoir.py` keeps: `held_out.py` computes
their products as if sample or class had not been learned, and `scored.py` turns their scores into a threshold
and a promised error. Near copies are left out together: `groups.py` has their groups, `near_copies.py` finds
them among pictures. `cold_start.py` has the recognizer that starts without any class.
"""
