"""The server role: the engines for HTTP requests and for channels, and what they share."""
