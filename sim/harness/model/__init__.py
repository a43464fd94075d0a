"""The reference model: what the service must do, written from the specification and DECISIONS.md alone."""
