"""Pure functions of the state: text, markdown, HTML, JSON."""
