"""How names are found: late, in the place of TensorFlow's, or not at all."""
