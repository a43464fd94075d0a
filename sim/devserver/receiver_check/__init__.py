"""The receiver check: test deliveries to an integrator's endpoint, and a graded report."""
