"""The wire format. Messages are read and written here: attributes, envelopes, notifications, signatures."""
