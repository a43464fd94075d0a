"""The request pipeline: parsing, validation, API keys and idempotency."""
