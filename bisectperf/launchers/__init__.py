"""Jobs that outlive their connection."""
