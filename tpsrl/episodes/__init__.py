"""Episodes: what they are, Habitat's JSON in and out, checks; tpsrl.generation makes them."""
