"""The events that the drawings of a Charge show: those of its payments and of its callbacks, and their order."""
