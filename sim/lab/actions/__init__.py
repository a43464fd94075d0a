"""What was done in a sandbox: the recorded actions, and the script that repeats them."""
