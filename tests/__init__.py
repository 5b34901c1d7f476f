"""Tests of rollwright, one folder a room; what several rooms need stands beside this file."""
