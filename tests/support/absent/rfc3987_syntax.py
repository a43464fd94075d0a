"""In place of the package of this name in the processes of a test run, as if it were missing: see `conftest.py`."""

raise ImportError("the tests leave rfc3987_syntax out", name="rfc3987_syntax")
