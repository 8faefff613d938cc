"""Tables of true values of your own: many architectures, each trained alone."""
