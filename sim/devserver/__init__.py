"""The development server: `leyden serve`, `listen`, `receiver-check`, the control plane and the console."""
