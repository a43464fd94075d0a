"""Charts by matplotlib: of a sandbox's figures over time, of distributions, and of the scenarios of a sweep."""
