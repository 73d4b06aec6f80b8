"""Dates, times and timestamps: calendar, zones, patterns and functions."""
