"""The charge service: told what happened, it writes one row and asks for what must happen next."""
