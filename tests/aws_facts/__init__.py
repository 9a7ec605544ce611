"""The table of what flowguard assumes of AWS holds the code, and the code the table."""
