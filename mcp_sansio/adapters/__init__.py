"""One file for each revision of the protocol, and the choice between them."""
