"""The Lightning side of the sandbox: invoices at the receiver, and the payments that reach them."""
