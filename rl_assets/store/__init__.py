"""Where results are kept: objects, the journal, folders, versioned tables, and SQL over them."""
