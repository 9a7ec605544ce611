"""What bounds a flow under load: the limits that AWS documents, second by second."""
