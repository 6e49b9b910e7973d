"""Open-world evaluation: measures, splits, the protocol, experiments by name, reports."""
