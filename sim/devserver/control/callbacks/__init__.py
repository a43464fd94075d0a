"""The control plane's operations for callbacks: deliveries, waits and inboxes."""
