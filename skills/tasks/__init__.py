"""What each skill is: observations, actions, start states, reward and success, for any engine."""
