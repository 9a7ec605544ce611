"""Let an agent draft the answer to a customer's ticket. Have a person approve it by a signed link, and send it."""
