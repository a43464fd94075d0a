"""Reports: the coverage, and cases exported in other formats."""
