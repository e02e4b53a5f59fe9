"""Process entry points, started by module name and imported by nobody."""
