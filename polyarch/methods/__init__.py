"""Published methods, one folder each; `polyarch.methods.method` says what a method is."""
