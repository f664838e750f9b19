"""Transformations of a nest, one a file; `schedule_text` applies them by name."""
