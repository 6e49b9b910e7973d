"""Accuracy on real data: the paper's experiments and the leaderboard."""
