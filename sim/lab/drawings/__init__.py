"""Drawings: what happened to a charge, where it stands, what is ahead, and the network behind it, as pictures.

Each takes a world and returns a `Drawing`: SVG for a page, Mermaid source for a document, lines for a terminal.
"""

from __future__ import annotations

from sim.lab.drawings.bars import bars
from sim.lab.drawings.codes import qr
from sim.lab.drawings.drawing import Drawing, DrawingError
from sim.lab.drawings.lifecycles import lifecycle
from sim.lab.drawings.networks import network
from sim.lab.drawings.schedules import schedule
from sim.lab.drawings.sequences import sequence
from sim.lab.drawings.timelines import timeline

__all__ = ["Drawing", "DrawingError", "bars", "lifecycle", "network", "qr", "schedule", "sequence", "timeline"]
