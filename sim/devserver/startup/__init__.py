"""What a server does once at its start: its addresses, the directories of its projects, its files, its notes."""
