"""The recorded actions of a sandbox, and the script that repeats them."""
