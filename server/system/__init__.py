"""The real machine: its clock, its random numbers, its sockets and its disk. Only this package touches them."""
