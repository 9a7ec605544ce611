"""What AWS refuses, and what each engine says to it: one table, judged by every engine that has the service."""
