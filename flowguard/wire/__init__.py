"""Reading and writing messages: attributes, envelopes, notifications, signatures."""
