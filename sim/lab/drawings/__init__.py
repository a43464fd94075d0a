"""Drawings: the events of a Charge, state diagrams, the schedule, the network, and QR codes.

Each returns a `Drawing`: SVG for a page, Mermaid source for a document, text for a terminal.
"""

from __future__ import annotations

from leyden.errors import DrawingError
from leyden.lab.drawings.drawing import Drawing
from leyden.lab.drawings.lifecycles import lifecycle
from leyden.lab.drawings.networks import network
from leyden.lab.drawings.qr import qr
from leyden.lab.drawings.schedules import schedule
from leyden.lab.drawings.sequences import sequence
from leyden.lab.drawings.timelines import timeline

__all__ = ["Drawing", "DrawingError", "lifecycle", "network", "qr", "schedule", "sequence", "timeline"]
