"""Reports: coverage, exported cases, and findings in words."""
