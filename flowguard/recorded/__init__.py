"""What a handler asks of its step: writes, messages, effects before the commit, and things to wait for."""
