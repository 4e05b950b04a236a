"""Learned skills: trained policies behind the interface of all skills."""
