"""Pure, bounded, incremental codecs: JSON, JSON-RPC envelopes, newline framing, event streams, HTTP header values.

Nothing here knows a revision, a method or a state. Each module turns bytes or text into values and back, and says what
was wrong in words that may be sent to a peer.
"""
