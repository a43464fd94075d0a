"""The way of a callback: where it is carried, what goes wrong with it, and the receivers it comes to."""
