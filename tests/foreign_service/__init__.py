"""A second implementation of the charge service, the harness's permanent foreign target."""
