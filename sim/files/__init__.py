"""Files and standard streams: written whole and with their modes, read with bounds, printed in any encoding."""
