"""Control laws that learners imitate."""
