"""The virtual clock, its timers, and a clock that follows a process in real time."""
