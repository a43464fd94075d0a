"""The harness: what QA holds. It knows what the service promised, tries everything, and tells where it was let down."""
