"""The kernel that runs the Python cells of a code interpreter."""
