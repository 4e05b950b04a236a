"""Scene data of other programs: Habitat's scene datasets out of and into tpsrl."""
