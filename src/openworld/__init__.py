"""Recognition in an open world."""
