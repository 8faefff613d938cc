"""Predictions of exported networks: from Python, the command line and over HTTP."""
