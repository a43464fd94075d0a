"""Files for other test tools, and the command that writes them."""
