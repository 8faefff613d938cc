"""One part of every kind for polyarch, as a package of its own."""
