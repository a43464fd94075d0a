"""The notebooks: one question each, answered with a table or a drawing."""
