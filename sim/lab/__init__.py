"""The laboratory: tables, figures, drawings, sweeps, scripts and notebooks of a sandbox."""
