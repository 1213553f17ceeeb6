"""Tables, labels, coordinates, and columns computed from the graph."""
