"""What every run does, whatever its method: settings, start, plan, stages, comparison, artifacts."""
