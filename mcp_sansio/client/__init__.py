"""The client role: engines that turn what a caller wants into bytes, and what a server sends into events."""
