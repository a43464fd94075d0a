"""The documents: the contracts of the service and of the control plane, the overlays, and the decisions."""
