"""Where the rows live: in memory or in a folder, each change whole or not at all."""
