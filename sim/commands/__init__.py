"""The command line: its parser, its commands, and the client of a served sandbox that most of them use."""
