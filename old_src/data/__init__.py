"""Tables, labels, and the columns that trees are grown on."""
