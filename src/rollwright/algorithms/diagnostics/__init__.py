"""What is measured of an update, a group and a token."""
