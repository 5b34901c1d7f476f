"""Small programs of the house: what the tests demonstrate, and the documents made from it."""
