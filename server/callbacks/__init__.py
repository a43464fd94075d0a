"""Callbacks: the outbox, its deliveries and attempts, retry rules, signatures and egress rules."""
