"""The desk: what integrators hold. The served sandbox, its control plane, and the command line's verbs."""
