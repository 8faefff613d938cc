"""Methods of the documents, composed from the parts."""
