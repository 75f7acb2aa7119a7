"""The research example: three sources of different shapes, one report; everything in memory."""
