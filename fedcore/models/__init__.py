"""Models by name: functions over a flat parameter vector."""
