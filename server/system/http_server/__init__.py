"""The HTTP server: listening sockets, connections with bounds, flow control, framing."""
