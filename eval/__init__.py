"""Evaluation: agents over episodes, metrics, statistics, figures and videos."""
