"""The operating system: clock, random numbers, sockets and disk. Nothing else in `server` uses them."""
