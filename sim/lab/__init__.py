"""The laboratory: tables, pictures and what-if, for whoever wants to know what a world did."""
