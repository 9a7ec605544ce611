"""AWS inside the process: an embedded engine on moto, and one hook through which every API call goes."""
