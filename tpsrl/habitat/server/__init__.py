"""What runs in Habitat's interpreter: Python 3.9, NumPy, habitat-lab, and nothing of tpsrl."""
