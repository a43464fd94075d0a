"""The control plane as its document declares it: lists and their filters, state that is kept, and checks of both."""
