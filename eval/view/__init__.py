"""The robot in a browser: live episodes and recorded ones on one page."""
