"""The HTTP client of callbacks: name lookups, checked addresses, one connection a request, transports."""
