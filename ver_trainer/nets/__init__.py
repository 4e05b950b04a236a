"""Policy networks: encoders, cores and heads that combine freely."""
