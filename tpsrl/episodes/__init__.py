"""Episodes: Habitat's JSON in and out, generators for the benchmark's scenarios."""
