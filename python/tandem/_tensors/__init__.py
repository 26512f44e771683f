"""What tensors, their shapes and variables are to Python."""
