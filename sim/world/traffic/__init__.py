"""Simulated customers: who they are, when they come, what they ask the service for, and how they pay."""
