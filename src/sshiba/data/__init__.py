"""The user's data: containers, tables, cells and their coding; view types as the user sees them."""
