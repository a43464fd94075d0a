"""Tables of long runs as Parquet files."""
