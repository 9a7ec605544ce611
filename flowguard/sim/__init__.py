"""AWS inside the process. An embedded engine on moto, and one hook through which every API call goes."""
