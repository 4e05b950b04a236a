"""Reads Habitat scene datasets (ReplicaCAD, YCB, our own exports) into tpsrl's descriptions."""
