"""The request log of a served sandbox: how rows get into it, and how they are shown."""
