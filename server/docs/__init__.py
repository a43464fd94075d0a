"""The documentation page and the Markdown tables, generated from the contract."""
