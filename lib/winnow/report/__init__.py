"""Render a run as one HTML page: values in, text out. Neither making nor viewing it needs a
network.
"""
